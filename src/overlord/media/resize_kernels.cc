#include "overlord/media/resize_kernels.h"

#include <algorithm>

namespace overlord::media {
namespace {

inline uint8_t clip(int32_t sum, int32_t bits) {
  return static_cast<uint8_t>(std::min(std::max(sum >> bits, 0), 255));
}

// Four rows at a time share the weights.
template <int kRows, int kChannels>
void across_rows(const uint8_t* from, ptrdiff_t from_stride, const ResizeWeights& weights,
                 uint8_t* __restrict to, ptrdiff_t to_stride) {
  const int32_t half = 1 << (weights.bits - 1);
  const size_t count = weights.starts.size();
  for (size_t i = 0; i < count; ++i) {
    const int16_t* const w = weights.weights.data() + i * static_cast<size_t>(weights.stride);
    const uint8_t* const start = from + static_cast<ptrdiff_t>(weights.starts[i]) * kChannels;
    const int32_t taps = weights.taps[i];
    int32_t sums[kRows][kChannels];
    for (auto& row : sums) std::fill(row, row + kChannels, half);
    for (int32_t k = 0; k < taps; ++k) {
      const int32_t weight = w[k];
      for (int r = 0; r < kRows; ++r) {
        for (int c = 0; c < kChannels; ++c) {
          sums[r][c] += start[r * from_stride + k * kChannels + c] * weight;
        }
      }
    }
    for (int r = 0; r < kRows; ++r) {
      for (int c = 0; c < kChannels; ++c) {
        to[r * to_stride + static_cast<ptrdiff_t>(i) * kChannels + c] =
            clip(sums[r][c], weights.bits);
      }
    }
  }
}

template <int kChannels>
void across(const uint8_t* from, ptrdiff_t from_stride, int32_t rows, const ResizeWeights& weights,
            uint8_t* to, ptrdiff_t to_stride) {
  int32_t y = 0;
  for (; y + 4 <= rows; y += 4) {
    across_rows<4, kChannels>(from + y * from_stride, from_stride, weights, to + y * to_stride,
                              to_stride);
  }
  for (; y < rows; ++y) {
    across_rows<1, kChannels>(from + y * from_stride, from_stride, weights, to + y * to_stride,
                              to_stride);
  }
}

template <int kWidth>
void down_block(const uint8_t* from, ptrdiff_t from_stride, const int16_t* weights, int32_t taps,
                int32_t bits, uint8_t* __restrict to) {
  int32_t sums[kWidth];
  for (int x = 0; x < kWidth; ++x) sums[x] = 1 << (bits - 1);
  for (int32_t k = 0; k < taps; ++k) {
    const uint8_t* const row = from + k * from_stride;
    const int16_t weight = weights[k];
    for (int x = 0; x < kWidth; ++x) {
      sums[x] += static_cast<int32_t>(static_cast<int16_t>(row[x])) * weight;
    }
  }
  for (int x = 0; x < kWidth; ++x) to[x] = clip(sums[x], bits);
}

}  // namespace

void filter_across(const uint8_t* from, ptrdiff_t from_stride, int32_t rows, int32_t channels,
                   const ResizeWeights& weights, uint8_t* to, ptrdiff_t to_stride) {
  if (channels == 1) {
    across<1>(from, from_stride, rows, weights, to, to_stride);
  } else {
    OVERLORD_CHECK(channels == 3, "resize takes one or three channels");
    across<3>(from, from_stride, rows, weights, to, to_stride);
  }
}

void filter_down(const uint8_t* from, ptrdiff_t from_stride, int32_t bytes, const int16_t* weights,
                 int32_t taps, int32_t bits, uint8_t* to) {
  int32_t x = 0;
  for (; x + 32 <= bytes; x += 32) {
    down_block<32>(from + x, from_stride, weights, taps, bits, to + x);
  }
  for (; x < bytes; ++x) down_block<1>(from + x, from_stride, weights, taps, bits, to + x);
}

}  // namespace overlord::media
