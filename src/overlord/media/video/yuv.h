// Decoded frames as a codec leaves them, in planes of luma and colour differences, and their way to
// RGB in whole numbers: the same pixels on every CPU, which libswscale does not promise.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "overlord/media/image/image.h"
#include "overlord/media/image/resize.h"

namespace overlord::media {

// Which light the differences stand for. Streams that do not say are read as BT.601, as FFmpeg's
// own converter does.
enum class ColourMatrix : uint8_t { kBt601, kBt709, kBt2020, kNone };

// Planes of 8 bits; colour planes may have half the columns or rows. kNone: planes G, B, R.
struct YuvFrame {
  int32_t width = 0;
  int32_t height = 0;
  int32_t planes = 3;        // 1: grey
  int32_t half_columns = 0;  // 1: the colour planes have half of them, rounded up
  int32_t half_rows = 0;
  ColourMatrix matrix = ColourMatrix::kBt601;
  bool full_range = false;  // 0 to 255 instead of 16 to 235
  std::array<const uint8_t*, 3> data = {};
  std::array<ptrdiff_t, 3> strides = {};

  ImageView plane(int32_t i) const {
    const int32_t columns = i == 0 ? width : (width + half_columns) >> half_columns;
    const int32_t rows = i == 0 ? height : (height + half_rows) >> half_rows;
    const auto at = static_cast<size_t>(i);
    return {data[at], columns, rows, 1, strides[at]};
  }
};

struct YuvScratch {
  ResizeScratch resize;
  std::vector<uint8_t> planes;
};

// The whole frame, colours of a block repeated for its pixels; or resized to `size`, of which
// `kept` is kept: planes are resized each by itself, then turned into RGB.
void yuv_to_rgb(const YuvFrame& frame, ImageSize size, const ImageBox& kept, ResizeFilter filter,
                YuvScratch& scratch, Image* out);

}  // namespace overlord::media
