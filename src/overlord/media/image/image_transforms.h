// Transforms of pictures and the rules that give their sizes. Sizes come from whole numbers alone
// (smart_resize excepted, which repeats its reference's doubles step by step), chance from a key.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/media/image/image.h"

namespace overlord::media {

// --- Orientation and flips ---------------------------------------------------------------------
// Stored coordinates of an EXIF orientation: whether its axes change places, and which of the
// stored axes run backwards.
struct Orientation {
  bool swaps = false;
  bool mirrors_x = false;
  bool mirrors_y = false;
};
Orientation orientation_of(int32_t exif);

// `stored` turned upright.
void orient(const ImageView& stored, int32_t exif, Image* out);
// The same box in stored coordinates, for a stored picture of this size.
ImageBox stored_box(const ImageBox& upright, ImageSize stored, int32_t exif);

void flip_across(Image* image);

// --- Sizes -------------------------------------------------------------------------------------
// The shorter side becomes `side`, the longer keeps the aspect, rounded down.
ImageSize short_side_size(ImageSize size, int32_t side);

// Qwen2-VL: sides rounded to multiples of `factor`, then scaled until the area lies within limits.
struct SmartResize {
  int64_t factor = 28;
  int64_t min_pixels = 56 * 56;
  int64_t max_pixels = 28 * 28 * 1280;

  friend bool operator==(const SmartResize&, const SmartResize&) = default;
  OVERLORD_FIELDS(factor, min_pixels, max_pixels)
};
Result<ImageSize> smart_resize(ImageSize size, const SmartResize& rule);

// The bucket whose aspect is nearest by ratio, the first of equals; `buckets` is not empty.
size_t nearest_bucket(ImageSize size, std::span<const ImageSize> buckets);
// The smallest size of the same aspect that covers `wanted`.
ImageSize covering_size(ImageSize size, ImageSize wanted);

// The grid of tiles (columns x rows, 1 to `most` in all) whose aspect is nearest; of equally near
// ones a larger grid where the picture has more than half its pixels. InternVL's rule.
ImageSize tile_grid(ImageSize size, int32_t tile, int32_t most);

// --- Crops -------------------------------------------------------------------------------------
// `wanted` must fit into `size`.
ImageBox centre_box(ImageSize size, ImageSize wanted);  // offsets rounded down
ImageBox random_box(ImageSize size, ImageSize wanted, uint64_t key);

// A box of random area (in thousandths of the picture's) and aspect (width by height, in
// thousandths, drawn evenly in its logarithm). Ten tries, then the largest centred box whose aspect
// is allowed.
struct RandomArea {
  int32_t area_min = 80;
  int32_t area_max = 1000;
  int32_t aspect_min = 750;
  int32_t aspect_max = 1333;

  friend bool operator==(const RandomArea&, const RandomArea&) = default;
  OVERLORD_FIELDS(area_min, area_max, aspect_min, aspect_max)
};
ImageBox random_area_box(ImageSize size, const RandomArea& rule, uint64_t key);

}  // namespace overlord::media
