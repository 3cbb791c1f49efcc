// The two inner loops of a resize, in whole numbers and in a form that compilers turn into vector
// code.
#pragma once

#include <cstdint>

#include "overlord/media/resize.h"

namespace overlord::media {

// Filters `rows` rows of one or three interleaved channels across.
void filter_across(const uint8_t* from, ptrdiff_t from_stride, int32_t rows, int32_t channels,
                   const ResizeWeights& weights, uint8_t* to, ptrdiff_t to_stride);

// One new row out of `taps` rows of `bytes` samples.
void filter_down(const uint8_t* from, ptrdiff_t from_stride, int32_t bytes, const int16_t* weights,
                 int32_t taps, int32_t bits, uint8_t* to);

}  // namespace overlord::media
