#include "overlord/media/resize_kernels.h"

#include <algorithm>
#include <cstring>

namespace overlord::media {
namespace {

// The compiler's own vectors: the same arithmetic on every CPU, in its widest registers.
using Bytes16 = uint8_t __attribute__((vector_size(16)));
using Bytes8 = uint8_t __attribute__((vector_size(8)));
using Sums8 = int32_t __attribute__((vector_size(32)));

constexpr int kLanes = 8;
constexpr int32_t kHalf = 1 << (ResizeWeights::kBits - 1);

inline uint8_t clip(int32_t sum) {
  return static_cast<uint8_t>(std::min(std::max(sum >> ResizeWeights::kBits, 0), 255));
}

inline Bytes8 clip(Sums8 sums) {
  sums >>= ResizeWeights::kBits;
  sums = sums < 0 ? Sums8{} : sums;
  const Sums8 most = Sums8{} + 255;
  sums = sums > most ? most : sums;
  return __builtin_convertvector(sums, Bytes8);
}

inline Bytes16 zip_low(Bytes16 a, Bytes16 b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
inline Bytes16 zip_high(Bytes16 a, Bytes16 b) {
  return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                 31);
}

// Rows and columns of 8 x 8 bytes change places: three perfect shuffles of all 64.
inline void transpose(Bytes16 (&block)[4]) {
  for (int round = 0; round < 3; ++round) {
    const Bytes16 a = zip_low(block[0], block[2]);
    const Bytes16 b = zip_high(block[0], block[2]);
    const Bytes16 c = zip_low(block[1], block[3]);
    const Bytes16 d = zip_high(block[1], block[3]);
    block[0] = a;
    block[1] = b;
    block[2] = c;
    block[3] = d;
  }
}

// Eight rows side by side: columns[8 * x + r] = row r at x. `bytes` may end inside a block of 8.
void gather_columns(const uint8_t* const (&rows)[kLanes], int32_t bytes, uint8_t* columns) {
  int32_t x = 0;
  for (; x + kLanes <= bytes; x += kLanes) {
    Bytes16 block[4];
    for (int r = 0; r < kLanes; ++r) {
      std::memcpy(reinterpret_cast<uint8_t*>(block) + kLanes * r, rows[r] + x, kLanes);
    }
    transpose(block);
    std::memcpy(columns + static_cast<ptrdiff_t>(x) * kLanes, block, sizeof block);
  }
  for (; x < bytes; ++x) {
    for (int r = 0; r < kLanes; ++r) columns[x * kLanes + r] = rows[r][x];
  }
}

// New column j of eight rows at once.
template <int kChannels>
inline Bytes8 filter_column(const uint8_t* columns, const ResizeWeights& weights, int32_t from,
                            int32_t j) {
  const auto i = static_cast<size_t>(j / kChannels);
  const int32_t* const w = weights.weights.data() + i * static_cast<size_t>(weights.stride);
  const uint8_t* at =
      columns +
      (static_cast<ptrdiff_t>(weights.starts[i] - from) * kChannels + j % kChannels) * kLanes;
  Sums8 sums = Sums8{} + kHalf;
  const int32_t taps = weights.taps[i];
  for (int32_t k = 0; k < taps; ++k, at += kLanes * kChannels) {
    Bytes8 samples;
    std::memcpy(&samples, at, sizeof samples);
    sums += __builtin_convertvector(samples, Sums8) * w[k];
  }
  return clip(sums);
}

template <int kChannels>
void across_strip(const uint8_t* columns, const ResizeWeights& weights, int32_t from,
                  uint8_t* const (&rows)[kLanes]) {
  const auto count = static_cast<int32_t>(weights.starts.size()) * kChannels;
  int32_t j = 0;
  for (; j + kLanes <= count; j += kLanes) {
    Bytes16 block[4];
    for (int n = 0; n < kLanes; ++n) {
      const Bytes8 column = filter_column<kChannels>(columns, weights, from, j + n);
      std::memcpy(reinterpret_cast<uint8_t*>(block) + kLanes * n, &column, kLanes);
    }
    transpose(block);
    for (int r = 0; r < kLanes; ++r) {
      std::memcpy(rows[r] + j, reinterpret_cast<uint8_t*>(block) + kLanes * r, kLanes);
    }
  }
  for (; j < count; ++j) {
    const Bytes8 column = filter_column<kChannels>(columns, weights, from, j);
    for (int r = 0; r < kLanes; ++r) rows[r][j] = column[r];
  }
}

template <int kWidth>
void down_block(const uint8_t* from, ptrdiff_t from_stride, const int32_t* weights, int32_t taps,
                uint8_t* __restrict to) {
  int32_t sums[kWidth];
  for (int x = 0; x < kWidth; ++x) sums[x] = kHalf;
  for (int32_t k = 0; k < taps; ++k) {
    const uint8_t* const row = from + k * from_stride;
    const int32_t weight = weights[k];
    for (int x = 0; x < kWidth; ++x) sums[x] += row[x] * weight;
  }
  for (int x = 0; x < kWidth; ++x) to[x] = clip(sums[x]);
}

}  // namespace

void filter_across(const uint8_t* from, ptrdiff_t from_stride, int32_t rows, int32_t channels,
                   const ResizeWeights& weights, std::vector<uint8_t>& columns, uint8_t* to,
                   ptrdiff_t to_stride) {
  OVERLORD_CHECK(channels == 1 || channels == 3, "resize takes one or three channels");
  const int32_t first = weights.starts.front();
  int32_t last = first;
  for (size_t i = 0; i < weights.starts.size(); ++i) {
    last = std::max(last, weights.starts[i] + weights.taps[i]);
  }
  const int32_t bytes = (last - first) * channels;
  const size_t strip = static_cast<size_t>(bytes) * kLanes;
  const size_t new_bytes = weights.starts.size() * static_cast<size_t>(channels);
  // Behind the columns, a row for what a last, incomplete strip computes in vain.
  if (columns.size() < strip + new_bytes) columns.resize(strip + new_bytes);
  for (int32_t y = 0; y < rows; y += kLanes) {
    const uint8_t* sources[kLanes];
    uint8_t* targets[kLanes];
    for (int r = 0; r < kLanes; ++r) {
      const bool real = y + r < rows;
      sources[r] =
          from + (real ? y + r : y) * from_stride + static_cast<ptrdiff_t>(first) * channels;
      targets[r] = real ? to + (y + r) * to_stride : columns.data() + strip;
    }
    gather_columns(sources, bytes, columns.data());
    if (channels == 1) {
      across_strip<1>(columns.data(), weights, first, targets);
    } else {
      across_strip<3>(columns.data(), weights, first, targets);
    }
  }
}

void filter_down(const uint8_t* from, ptrdiff_t from_stride, int32_t bytes, const int32_t* weights,
                 int32_t taps, uint8_t* to) {
  int32_t x = 0;
  for (; x + 32 <= bytes; x += 32) {
    down_block<32>(from + x, from_stride, weights, taps, to + x);
  }
  for (; x + 8 <= bytes; x += 8) down_block<8>(from + x, from_stride, weights, taps, to + x);
  for (; x < bytes; ++x) down_block<1>(from + x, from_stride, weights, taps, to + x);
}

}  // namespace overlord::media
