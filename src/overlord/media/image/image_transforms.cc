#include "overlord/media/image/image_transforms.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "overlord/base/fixed_functions.h"
#include "overlord/base/fixed_point.h"
#include "overlord/base/rng.h"

namespace overlord::media {
namespace {

constexpr int64_t kLargestAspect = 200;  // Qwen2-VL's own limit

// a / b to the nearest whole number, halves to the even one, as Python's round().
int64_t round_half_even(int64_t a, int64_t b) {
  const int64_t below = a / b;
  const int64_t twice_rest = 2 * (a % b);
  if (twice_rest != b) return below + (twice_rest > b ? 1 : 0);
  return below + below % 2;
}

}  // namespace

Orientation orientation_of(int32_t exif) {
  OVERLORD_CHECK(exif >= 1 && exif <= 8, "EXIF orientation outside 1 to 8");
  return {exif >= 5, exif == 2 || exif == 3 || exif == 7 || exif == 8,
          exif == 3 || exif == 4 || exif == 6 || exif == 7};
}

void orient(const ImageView& stored, int32_t exif, Image* out) {
  const Orientation turn = orientation_of(exif);
  const int32_t width = turn.swaps ? stored.height : stored.width;
  const int32_t height = turn.swaps ? stored.width : stored.height;
  const int32_t channels = stored.channels;
  out->shape(width, height, channels);
  for (int32_t y = 0; y < height; ++y) {
    uint8_t* to = out->row(y);
    // Where this row starts in the stored picture, and the step to its next pixel.
    int32_t from_x = turn.swaps ? y : 0;
    int32_t from_y = turn.swaps ? 0 : y;
    if (turn.mirrors_x) from_x = stored.width - 1 - from_x;
    if (turn.mirrors_y) from_y = stored.height - 1 - from_y;
    const ptrdiff_t step = turn.swaps ? (turn.mirrors_y ? -stored.stride : stored.stride)
                                      : (turn.mirrors_x ? -channels : channels);
    const uint8_t* from = stored.row(from_y) + static_cast<ptrdiff_t>(from_x) * channels;
    for (int32_t x = 0; x < width; ++x, from += step) {
      for (int32_t c = 0; c < channels; ++c) *to++ = from[c];
    }
  }
}

ImageBox stored_box(const ImageBox& upright, ImageSize stored, int32_t exif) {
  const Orientation turn = orientation_of(exif);
  ImageBox box = upright;
  if (turn.swaps) {
    std::swap(box.left, box.top);
    std::swap(box.width, box.height);
  }
  if (turn.mirrors_x) box.left = stored.width - box.left - box.width;
  if (turn.mirrors_y) box.top = stored.height - box.top - box.height;
  return box;
}

void flip_across(Image* image) {
  const int32_t channels = image->channels;
  for (int32_t y = 0; y < image->height; ++y) {
    uint8_t* left = image->row(y);
    uint8_t* right = left + static_cast<ptrdiff_t>(image->width - 1) * channels;
    for (; left < right; left += channels, right -= channels) {
      std::swap_ranges(left, left + channels, right);
    }
  }
}

ImageSize short_side_size(ImageSize size, int32_t side) {
  const int64_t shorter = std::min(size.width, size.height);
  const int64_t longer = std::max(size.width, size.height);
  const auto other =
      static_cast<int32_t>(std::min<int64_t>(int64_t{side} * longer / shorter, INT32_MAX));
  return size.width <= size.height ? ImageSize{side, other} : ImageSize{other, side};
}

Result<ImageSize> smart_resize(ImageSize size, const SmartResize& rule) {
  const int64_t width = size.width;
  const int64_t height = size.height;
  if (std::max(width, height) > kLargestAspect * std::min(width, height)) {
    return bad_data("picture of " + size_text(size) + " is more than " +
                    std::to_string(kLargestAspect) + " times as long as it is wide");
  }
  int64_t new_width = round_half_even(width, rule.factor) * rule.factor;
  int64_t new_height = round_half_even(height, rule.factor) * rule.factor;
  // The reference decides in doubles; division and square root round the same everywhere.
  const auto area = static_cast<double>(width * height);
  const auto factor = static_cast<double>(rule.factor);
  const auto w = static_cast<double>(width);
  const auto h = static_cast<double>(height);
  if (new_width * new_height > rule.max_pixels) {
    const double beta = std::sqrt(area / static_cast<double>(rule.max_pixels));
    const auto fit = [&](double side) {
      return std::max(rule.factor,
                      static_cast<int64_t>(std::floor(side / beta / factor)) * rule.factor);
    };
    new_width = fit(w);
    new_height = fit(h);
  } else if (new_width * new_height < rule.min_pixels) {
    const double beta = std::sqrt(static_cast<double>(rule.min_pixels) / area);
    const auto grow = [&](double side) {
      return static_cast<int64_t>(std::ceil(side * beta / factor)) * rule.factor;
    };
    new_width = grow(w);
    new_height = grow(h);
  }
  return ImageSize{static_cast<int32_t>(new_width), static_cast<int32_t>(new_height)};
}

size_t nearest_bucket(ImageSize size, std::span<const ImageSize> buckets) {
  // Nearness of aspects a and b is min(a, b) / max(a, b), kept as a fraction.
  size_t best = 0;
  int64_t best_less = -1;
  int64_t best_more = 1;
  for (size_t i = 0; i < buckets.size(); ++i) {
    const int64_t one = int64_t{size.width} * buckets[i].height;
    const int64_t other = int64_t{size.height} * buckets[i].width;
    const int64_t less = std::min(one, other);
    const int64_t more = std::max(one, other);
    if (Int128{less} * best_more > Int128{best_less} * more) {
      best = i;
      best_less = less;
      best_more = more;
    }
  }
  return best;
}

ImageSize covering_size(ImageSize size, ImageSize wanted) {
  const auto up = [](int64_t a, int64_t b) {
    return static_cast<int32_t>(std::min<int64_t>((a + b - 1) / b, INT32_MAX));
  };
  const int64_t wide = int64_t{wanted.width} * size.height;
  const int64_t high = int64_t{wanted.height} * size.width;
  if (wide >= high) return {wanted.width, up(wide, size.width)};
  return {up(high, size.height), wanted.height};
}

ImageSize tile_grid(ImageSize size, int32_t tile, int32_t most) {
  ImageSize best = {1, 1};
  // |w / h - c / r| as the fraction off / (h * r); the h is common to all.
  Int128 best_off = -1;
  int64_t best_rows = 1;
  for (int32_t tiles = 1; tiles <= most; ++tiles) {
    for (int32_t columns = 1; columns <= tiles; ++columns) {
      if (tiles % columns != 0) continue;
      const int32_t rows = tiles / columns;
      const int64_t difference = int64_t{size.width} * rows - int64_t{size.height} * columns;
      const Int128 off = difference < 0 ? -difference : difference;
      const Int128 here = off * best_rows;
      const Int128 there = best_off * rows;
      const Int128 half_grid = Int128{tile} * tile * tiles;
      const bool nearer = best_off < 0 || here < there;
      const bool equal_and_larger =
          here == there && Int128{2} * size.width * size.height > half_grid;
      if (nearer || equal_and_larger) {
        best = {columns, rows};
        best_off = off;
        best_rows = rows;
      }
    }
  }
  return best;
}

ImageBox centre_box(ImageSize size, ImageSize wanted) {
  return {(size.width - wanted.width) / 2, (size.height - wanted.height) / 2, wanted.width,
          wanted.height};
}

ImageBox random_box(ImageSize size, ImageSize wanted, uint64_t key) {
  const auto offset = [&](int32_t room, uint64_t axis) {
    return static_cast<int32_t>(uniform_below(key, axis, 0, static_cast<uint64_t>(room) + 1));
  };
  return {offset(size.width - wanted.width, 0), offset(size.height - wanted.height, 1),
          wanted.width, wanted.height};
}

ImageBox random_area_box(ImageSize size, const RandomArea& rule, uint64_t key) {
  constexpr uint64_t kTries = 10;
  const int64_t area = int64_t{size.width} * size.height;
  const int64_t low = fixed_log_of(static_cast<uint64_t>(rule.aspect_min));
  const int64_t high = fixed_log_of(static_cast<uint64_t>(rule.aspect_max));
  const int64_t thousand = fixed_log_of(1000);
  for (uint64_t attempt = 0; attempt < kTries; ++attempt) {
    const auto draw = [&](uint64_t which, int64_t from, int64_t to) {
      return from + static_cast<int64_t>(uniform_below(key, 2 + which, attempt,
                                                       static_cast<uint64_t>(to - from) + 1));
    };
    // A millionth of the area is fine enough; aspects count 2^-32 in their logarithm.
    const int64_t target = static_cast<int64_t>(
        Int128{area} * draw(0, rule.area_min * int64_t{1000}, rule.area_max * int64_t{1000}) /
        1'000'000);
    const int64_t aspect = fixed_exp(draw(1, low, high) - thousand);
    const auto side = [](Int128 square) {
      // Rounded square root of a Q32 number.
      if (square > (Int128{1} << 62)) square = Int128{1} << 62;
      return (fixed_sqrt(static_cast<int64_t>(square)) + kFixedOne / 2) >> kFixedBits;
    };
    // Below 2^30 pixels the products stay inside; larger targets are brought down and back.
    int64_t reduce = 1;
    while (target / (reduce * reduce) * 8 >= (int64_t{1} << 29)) reduce *= 2;
    const Int128 square = Int128{target} / (reduce * reduce);
    const int64_t width = side(square * aspect) * reduce;
    const int64_t height = aspect > 0 ? side((square << 64) / aspect) * reduce : 0;
    if (width >= 1 && height >= 1 && width <= size.width && height <= size.height) {
      const ImageSize wanted = {static_cast<int32_t>(width), static_cast<int32_t>(height)};
      return random_box(size, wanted, key);
    }
  }
  ImageSize wanted = size;
  if (int64_t{size.width} * 1000 > int64_t{size.height} * rule.aspect_max) {
    wanted.width = static_cast<int32_t>(int64_t{size.height} * rule.aspect_max / 1000);
  } else if (int64_t{size.width} * 1000 < int64_t{size.height} * rule.aspect_min) {
    wanted.height = static_cast<int32_t>(int64_t{size.width} * 1000 / rule.aspect_min);
  }
  wanted = {std::max(wanted.width, 1), std::max(wanted.height, 1)};
  return centre_box(size, wanted);
}

}  // namespace overlord::media
