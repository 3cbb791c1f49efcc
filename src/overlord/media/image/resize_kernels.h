// The two inner loops of a resize, in whole numbers and in a form that compilers turn into vector
// code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "overlord/media/image/resize.h"

namespace overlord::media {

// Filters `rows` rows of one or three interleaved channels across. `columns` is memory to work in.
void filter_across(const uint8_t* from, ptrdiff_t from_stride, int32_t rows, int32_t channels,
                   const ResizeWeights& weights, std::vector<uint8_t>& columns, uint8_t* to,
                   ptrdiff_t to_stride);

// One new row out of `taps` rows of `bytes` samples.
void filter_down(const uint8_t* from, ptrdiff_t from_stride, int32_t bytes, const int32_t* weights,
                 int32_t taps, uint8_t* to);

}  // namespace overlord::media
