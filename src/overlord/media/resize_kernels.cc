#include "overlord/media/resize_kernels.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace overlord::media {
namespace {

// The compiler's own vectors: the same arithmetic on every CPU, in its widest registers.
using Bytes16 = uint8_t __attribute__((vector_size(16)));
using Words8 = uint16_t __attribute__((vector_size(16)));
using Sums4 = int32_t __attribute__((vector_size(16)));

// Widening is done by interleaving with zeros, which compilers turn into one instruction each.
static_assert(std::endian::native == std::endian::little, "bytes are widened low byte first");

constexpr int kLanes = 8;
constexpr int32_t kHalf = 1 << (ResizeWeights::kBits - 1);

inline Bytes16 zip_low(Bytes16 a, Bytes16 b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
inline Bytes16 zip_high(Bytes16 a, Bytes16 b) {
  return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                 31);
}

inline Words8 zip_low(Words8 a, Words8 b) {
  return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
}
inline Words8 zip_high(Words8 a, Words8 b) {
  return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
}

// Eight running sums in two registers of 128 bits.
struct Sums8 {
  Sums4 low = Sums4{} + kHalf;
  Sums4 high = Sums4{} + kHalf;

  void add(const uint8_t* samples, int32_t weight) {
    Bytes16 bytes = {};
    std::memcpy(&bytes, samples, kLanes);
    const auto words = reinterpret_cast<Words8>(zip_low(bytes, Bytes16{}));
    low += reinterpret_cast<Sums4>(zip_low(words, Words8{})) * weight;
    high += reinterpret_cast<Sums4>(zip_high(words, Words8{})) * weight;
  }

  static Words8 clipped(Sums4 sums) {
    sums >>= ResizeWeights::kBits;
    const Sums4 most = Sums4{} + 255;
    sums = sums < 0 ? Sums4{} : sums;
    return reinterpret_cast<Words8>(sums > most ? most : sums);
  }

  // The eight samples, in the lower half.
  Bytes16 clip() const {
    const Words8 words =
        __builtin_shufflevector(clipped(low), clipped(high), 0, 2, 4, 6, 8, 10, 12, 14);
    const auto bytes = reinterpret_cast<Bytes16>(words);
    return __builtin_shufflevector(bytes, bytes, 0, 2, 4, 6, 8, 10, 12, 14, 0, 2, 4, 6, 8, 10, 12,
                                   14);
  }
};

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
inline Bytes16 filter_column(const uint8_t* columns, const ResizeWeights& weights, int32_t from,
                             int32_t j) {
  const auto i = static_cast<size_t>(j / kChannels);
  const int32_t* const w = weights.weights.data() + i * static_cast<size_t>(weights.stride);
  const uint8_t* at =
      columns +
      (static_cast<ptrdiff_t>(weights.starts[i] - from) * kChannels + j % kChannels) * kLanes;
  Sums8 sums;
  const int32_t taps = weights.taps[i];
  for (int32_t k = 0; k < taps; ++k, at += kLanes * kChannels) sums.add(at, w[k]);
  return sums.clip();
}

template <int kChannels>
void across_strip(const uint8_t* columns, const ResizeWeights& weights, int32_t from,
                  uint8_t* const (&rows)[kLanes]) {
  const auto count = static_cast<int32_t>(weights.starts.size()) * kChannels;
  int32_t j = 0;
  for (; j + kLanes <= count; j += kLanes) {
    Bytes16 block[4];
    for (int n = 0; n < kLanes; ++n) {
      const Bytes16 column = filter_column<kChannels>(columns, weights, from, j + n);
      std::memcpy(reinterpret_cast<uint8_t*>(block) + kLanes * n, &column, kLanes);
    }
    transpose(block);
    for (int r = 0; r < kLanes; ++r) {
      std::memcpy(rows[r] + j, reinterpret_cast<uint8_t*>(block) + kLanes * r, kLanes);
    }
  }
  for (; j < count; ++j) {
    const Bytes16 column = filter_column<kChannels>(columns, weights, from, j);
    for (int r = 0; r < kLanes; ++r) rows[r][j] = column[r];
  }
}

// 8 * kBlocks new samples of one row.
template <int kBlocks>
void down_block(const uint8_t* from, ptrdiff_t from_stride, const int32_t* weights, int32_t taps,
                uint8_t* to) {
  Sums8 sums[kBlocks];
  for (int32_t k = 0; k < taps; ++k, from += from_stride) {
    for (int n = 0; n < kBlocks; ++n) sums[n].add(from + n * kLanes, weights[k]);
  }
  for (int n = 0; n < kBlocks; ++n) {
    const Bytes16 samples = sums[n].clip();
    std::memcpy(to + n * kLanes, &samples, kLanes);
  }
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
  for (; x + 32 <= bytes; x += 32) down_block<4>(from + x, from_stride, weights, taps, to + x);
  for (; x + 8 <= bytes; x += 8) down_block<1>(from + x, from_stride, weights, taps, to + x);
  for (; x < bytes; ++x) {
    int32_t sum = kHalf;
    for (int32_t k = 0; k < taps; ++k) sum += from[k * from_stride + x] * weights[k];
    to[x] = static_cast<uint8_t>(std::clamp(sum >> ResizeWeights::kBits, 0, 255));
  }
}

}  // namespace overlord::media
