#include "overlord/media/image/codecs/colour.h"

#include <algorithm>

namespace overlord::media {
namespace {

inline uint8_t clamp_sample(int32_t value) {
  return static_cast<uint8_t>(std::min(std::max(value, 0), 255));
}

// a * b / 255, rounded, for a and b up to 255.
inline int32_t scaled_by(int32_t a, int32_t b) {
  const int32_t product = a * b + 128;
  return ((product >> 8) + product) >> 8;
}

}  // namespace

void ycc_row_to_rgb(const uint8_t* y, const uint8_t* cb, const uint8_t* cr, int32_t width,
                    uint8_t* __restrict rgb) {
  constexpr int32_t kHalf = 1 << 15;
  for (int32_t x = 0; x < width; ++x) {
    const int32_t luma = y[x];
    const int32_t blue = cb[x] - 128;
    const int32_t red = cr[x] - 128;
    rgb[3 * x] = clamp_sample(luma + ((91881 * red + kHalf) >> 16));
    rgb[3 * x + 1] = clamp_sample(luma + ((-22554 * blue - 46802 * red + kHalf) >> 16));
    rgb[3 * x + 2] = clamp_sample(luma + ((116130 * blue + kHalf) >> 16));
  }
}

void grey_row_to_rgb(const uint8_t* grey, int32_t width, uint8_t* __restrict rgb) {
  for (int32_t x = 0; x < width; ++x) {
    rgb[3 * x] = grey[x];
    rgb[3 * x + 1] = grey[x];
    rgb[3 * x + 2] = grey[x];
  }
}

void inverted_cmyk_row_to_rgb(const uint8_t* cmyk, int32_t width, uint8_t* __restrict rgb) {
  for (int32_t x = 0; x < width; ++x) {
    const int32_t light = cmyk[4 * x + 3];
    for (int32_t c = 0; c < 3; ++c) {
      rgb[3 * x + c] = clamp_sample(light - scaled_by(255 - cmyk[4 * x + c], light));
    }
  }
}

void rgba_row_over(const uint8_t* rgba, int32_t width, const std::array<uint8_t, 3>& background,
                   uint8_t* __restrict rgb) {
  for (int32_t x = 0; x < width; ++x) {
    const int32_t alpha = rgba[4 * x + 3];
    for (int32_t c = 0; c < 3; ++c) {
      const int32_t sum =
          rgba[4 * x + c] * alpha + background[static_cast<size_t>(c)] * (255 - alpha) + 128;
      rgb[3 * x + c] = static_cast<uint8_t>(((sum >> 8) + sum) >> 8);
    }
  }
}

void rgba_row_drop(const uint8_t* rgba, int32_t width, uint8_t* __restrict rgb) {
  for (int32_t x = 0; x < width; ++x) {
    rgb[3 * x] = rgba[4 * x];
    rgb[3 * x + 1] = rgba[4 * x + 1];
    rgb[3 * x + 2] = rgba[4 * x + 2];
  }
}

void rgb_row_to_grey(const uint8_t* rgb, int32_t width, uint8_t* __restrict grey) {
  for (int32_t x = 0; x < width; ++x) {
    grey[x] = static_cast<uint8_t>(
        (rgb[3 * x] * 19595 + rgb[3 * x + 1] * 38470 + rgb[3 * x + 2] * 7471 + 0x8000) >> 16);
  }
}

}  // namespace overlord::media
