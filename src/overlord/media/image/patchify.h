// From pixels to what a vision encoder reads: normalised floats and patch rows. Every 8-bit level
// is normalised once into a table, so the floats are the same on every CPU and cost one lookup
// each.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "overlord/base/status.h"
#include "overlord/media/image/image.h"

namespace overlord::media {

// rescale_first: float(level * (1/255) in double) - mean, then / std, both in float32; what the
// Pillow-based processors of transformers do. fused: (level - mean * 255) / (std * 255) in float32;
// what its "fast" processors do. They differ in the last bit.
enum class NormaliseOrder : uint8_t { kRescaleFirst, kFused };

struct Normalise {
  std::array<float, 3> mean = {0.0F, 0.0F, 0.0F};
  std::array<float, 3> std = {1.0F, 1.0F, 1.0F};
  NormaliseOrder order = NormaliseOrder::kRescaleFirst;

  friend bool operator==(const Normalise&, const Normalise&) = default;
  OVERLORD_FIELDS(mean, std, order)
};

using NormaliseTable = std::array<std::array<float, 256>, 3>;
NormaliseTable normalise_table(const Normalise& rule);

// Order of the patch rows and of the values in a row.
// qwen2vl: rows by blocks of merge x merge patches; a row is channel, frame, y, x, with the still
//          repeated `temporal` times. vit: rows left to right, top to bottom; channel, y, x.
// vit_last: as vit, a row is y, x, channel.
enum class PatchLayout : uint8_t { kQwen2vl, kVit, kVitLast };

struct Patchify {
  PatchLayout layout = PatchLayout::kQwen2vl;
  int32_t patch = 14;
  int32_t temporal = 2;  // qwen2vl only; 1 otherwise
  int32_t merge = 2;     // qwen2vl only; 1 otherwise

  friend bool operator==(const Patchify&, const Patchify&) = default;

  int64_t row_values(int32_t channels) const {
    return int64_t{channels} * temporal * patch * patch;
  }
};

// Ok when their values make sense.
Status check_values(const Normalise& rule);
Status check_values(const Patchify& rule);

// Ok when a picture of this size divides into whole (merged) patches.
Status check_patches(ImageSize size, const Patchify& rule);

// How pixels leave a chain.
struct PixelForm {
  const NormaliseTable* table = nullptr;  // as floats; none: as levels
  const Patchify* patchify = nullptr;     // patch rows; none: all pixels, channels interleaved
  bool planes = false;                    // all pixels, one plane per channel
};

// `frame`: the picture is this frame of patches that span several, and fills its share of each row;
// without it the picture is a still, which is all of their frames.
void write_pixels(const ImageView& image, const PixelForm& form, std::optional<int32_t> frame,
                  uint8_t* out);

}  // namespace overlord::media
