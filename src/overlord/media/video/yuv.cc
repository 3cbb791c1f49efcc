#include "overlord/media/video/yuv.h"

#include <algorithm>

namespace overlord::media {
namespace {

// Sixteen-bit fixed point; `lift` is what black has, `luma` what a step of luma is worth.
struct Coefficients {
  int32_t lift;
  int32_t luma;
  int32_t red_of_v;
  int32_t green_of_u;
  int32_t green_of_v;
  int32_t blue_of_u;
};

constexpr int32_t fixed(double value) { return static_cast<int32_t>(value * 65536.0 + 0.5); }

// From the shares of red and blue in luma, by the definition of the differences.
constexpr Coefficients coefficients(double red, double blue, bool full) {
  const double green = 1.0 - red - blue;
  const double luma = full ? 1.0 : 255.0 / 219.0;
  const double chroma = full ? 1.0 : 255.0 / 224.0;
  return {full ? 0 : 16,
          fixed(luma),
          fixed(2.0 * (1.0 - red) * chroma),
          fixed(2.0 * (1.0 - blue) * blue / green * chroma),
          fixed(2.0 * (1.0 - red) * red / green * chroma),
          fixed(2.0 * (1.0 - blue) * chroma)};
}

constexpr Coefficients kCoefficients[3][2] = {
    {coefficients(0.299, 0.114, false), coefficients(0.299, 0.114, true)},
    {coefficients(0.2126, 0.0722, false), coefficients(0.2126, 0.0722, true)},
    {coefficients(0.2627, 0.0593, false), coefficients(0.2627, 0.0593, true)},
};

inline uint8_t level(int32_t value) {
  return static_cast<uint8_t>(std::min(std::max(value >> 16, 0), 255));
}

// One row of planes that all have as many samples, shifted down for colour planes of half.
void row_to_rgb(const Coefficients& k, const uint8_t* y, const uint8_t* u, const uint8_t* v,
                int32_t width, int32_t half, uint8_t* __restrict rgb) {
  constexpr int32_t kHalf = 1 << 15;
  for (int32_t x = 0; x < width; ++x) {
    const int32_t light = (y[x] - k.lift) * k.luma + kHalf;
    const int32_t blue = u[x >> half] - 128;
    const int32_t red = v[x >> half] - 128;
    rgb[3 * x] = level(light + k.red_of_v * red);
    rgb[3 * x + 1] = level(light - k.green_of_u * blue - k.green_of_v * red);
    rgb[3 * x + 2] = level(light + k.blue_of_u * blue);
  }
}

void grey_to_rgb(const Coefficients& k, const uint8_t* y, int32_t width, uint8_t* __restrict rgb) {
  for (int32_t x = 0; x < width; ++x) {
    const uint8_t value = level((y[x] - k.lift) * k.luma + (1 << 15));
    rgb[3 * x] = value;
    rgb[3 * x + 1] = value;
    rgb[3 * x + 2] = value;
  }
}

void gbr_to_rgb(const uint8_t* g, const uint8_t* b, const uint8_t* r, int32_t width,
                uint8_t* __restrict rgb) {
  for (int32_t x = 0; x < width; ++x) {
    rgb[3 * x] = r[x];
    rgb[3 * x + 1] = g[x];
    rgb[3 * x + 2] = b[x];
  }
}

}  // namespace

void yuv_to_rgb(const YuvFrame& frame, ImageSize size, const ImageBox& kept, ResizeFilter filter,
                YuvScratch& scratch, Image* out) {
  out->shape(kept.width, kept.height, 3);
  const bool resizes = size.width != frame.width || size.height != frame.height;
  std::array<ImageView, 3> planes;
  const auto area = static_cast<size_t>(kept.width) * static_cast<size_t>(kept.height);
  if (resizes && scratch.planes.size() < 3 * area) scratch.planes.resize(3 * area);
  for (int32_t i = 0; i < frame.planes; ++i) {
    const ImageView plane = frame.plane(i);
    ImageView& to = planes[static_cast<size_t>(i)];
    if (!resizes) {
      to = plane;
      continue;
    }
    const int64_t per_column = i == 0 ? 1 : 1 << frame.half_columns;
    const int64_t per_row = i == 0 ? 1 : 1 << frame.half_rows;
    uint8_t* const small = scratch.planes.data() + static_cast<size_t>(i) * area;
    resize(plane, {0, frame.width, per_column, 0, plane.width, size.width, kept.left, kept.width},
           {0, frame.height, per_row, 0, plane.height, size.height, kept.top, kept.height}, filter,
           scratch.resize, small, kept.width);
    to = {small, kept.width, kept.height, 1, kept.width};
  }
  const int32_t half_columns = resizes ? 0 : frame.half_columns;
  const int32_t half_rows = resizes ? 0 : frame.half_rows;
  const int32_t left = resizes ? 0 : kept.left;
  const int32_t top = resizes ? 0 : kept.top;
  const size_t matrix = frame.matrix == ColourMatrix::kNone ? 0 : static_cast<size_t>(frame.matrix);
  const Coefficients& k = kCoefficients[matrix][frame.full_range ? 1 : 0];
  // A crop that starts inside a block of two shifts by whole blocks and begins one pixel early.
  std::vector<uint8_t> shifted;
  for (int32_t row = 0; row < kept.height; ++row) {
    const int32_t y = top + row;
    const uint8_t* const light = planes[0].row(y);
    if (frame.planes == 1) {
      grey_to_rgb(k, light + left, kept.width, out->row(row));
      continue;
    }
    const uint8_t* const second = planes[1].row(y >> half_rows) + (left >> half_columns);
    const uint8_t* const third = planes[2].row(y >> half_rows) + (left >> half_columns);
    if (frame.matrix == ColourMatrix::kNone) {
      gbr_to_rgb(light + left, second, third, kept.width, out->row(row));
      continue;
    }
    const int32_t odd = half_columns != 0 ? left % 2 : 0;
    if (odd == 0) {
      row_to_rgb(k, light + left, second, third, kept.width, half_columns, out->row(row));
      continue;
    }
    shifted.resize(3 * (static_cast<size_t>(kept.width) + 1));
    row_to_rgb(k, light + left - 1, second, third, kept.width + 1, half_columns, shifted.data());
    std::copy(shifted.begin() + 3, shifted.end(), out->row(row));
  }
}

}  // namespace overlord::media
