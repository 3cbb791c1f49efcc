#include "overlord/media/resize_kernels.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace overlord::media {
namespace {

// The compiler's own vectors: the same arithmetic on every CPU, in its widest registers.
using Bytes16 = uint8_t __attribute__((vector_size(16)));
using Halves = uint64_t __attribute__((vector_size(16)));
using Words8 = uint16_t __attribute__((vector_size(16)));
using Sums4 = int32_t __attribute__((vector_size(16)));

// Widening is done by interleaving with zeros, which compilers turn into one instruction each.
static_assert(std::endian::native == std::endian::little, "bytes are widened low byte first");

constexpr int kLanes = 16;
constexpr int kBlock = 8;
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

// Sixteen running sums in four registers of 128 bits.
struct Sums16 {
  Sums4 sums[4] = {Sums4{} + kHalf, Sums4{} + kHalf, Sums4{} + kHalf, Sums4{} + kHalf};

  void add(const uint8_t* samples, int32_t weight) {
    Bytes16 bytes;
    std::memcpy(&bytes, samples, sizeof bytes);
    const auto low = reinterpret_cast<Words8>(zip_low(bytes, Bytes16{}));
    const auto high = reinterpret_cast<Words8>(zip_high(bytes, Bytes16{}));
    sums[0] += reinterpret_cast<Sums4>(zip_low(low, Words8{})) * weight;
    sums[1] += reinterpret_cast<Sums4>(zip_high(low, Words8{})) * weight;
    sums[2] += reinterpret_cast<Sums4>(zip_low(high, Words8{})) * weight;
    sums[3] += reinterpret_cast<Sums4>(zip_high(high, Words8{})) * weight;
  }

  static Words8 clipped(Sums4 sums) {
    sums >>= ResizeWeights::kBits;
    const Sums4 most = Sums4{} + 255;
    sums = sums < 0 ? Sums4{} : sums;
    return reinterpret_cast<Words8>(sums > most ? most : sums);
  }

  Bytes16 clip() const {
    const Words8 low =
        __builtin_shufflevector(clipped(sums[0]), clipped(sums[1]), 0, 2, 4, 6, 8, 10, 12, 14);
    const Words8 high =
        __builtin_shufflevector(clipped(sums[2]), clipped(sums[3]), 0, 2, 4, 6, 8, 10, 12, 14);
    return __builtin_shufflevector(reinterpret_cast<Bytes16>(low), reinterpret_cast<Bytes16>(high),
                                   0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
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

// Sixteen rows side by side: columns[16 * x + r] = row r at x. `bytes` may end inside a block of 8.
void gather_columns(const uint8_t* const (&rows)[kLanes], int32_t bytes, uint8_t* columns) {
  int32_t x = 0;
  for (; x + kBlock <= bytes; x += kBlock) {
    for (int half = 0; half < kLanes; half += kBlock) {
      Bytes16 block[4];
      for (int r = 0; r < 4; ++r) {
        uint64_t even = 0;
        uint64_t odd = 0;
        std::memcpy(&even, rows[half + 2 * r] + x, sizeof even);
        std::memcpy(&odd, rows[half + 2 * r + 1] + x, sizeof odd);
        block[r] = reinterpret_cast<Bytes16>(Halves{even, odd});
      }
      transpose(block);
      for (int n = 0; n < kBlock; ++n) {
        const uint64_t column = reinterpret_cast<Halves>(block[n / 2])[n % 2];
        std::memcpy(columns + (x + n) * kLanes + half, &column, sizeof column);
      }
    }
  }
  for (; x < bytes; ++x) {
    for (int r = 0; r < kLanes; ++r) columns[x * kLanes + r] = rows[r][x];
  }
}

// New column j of sixteen rows at once.
template <int kChannels>
inline Bytes16 filter_column(const uint8_t* columns, const ResizeWeights& weights, int32_t from,
                             int32_t j) {
  const auto i = static_cast<size_t>(j / kChannels);
  const int32_t* const w = weights.weights.data() + i * static_cast<size_t>(weights.stride);
  const uint8_t* at =
      columns +
      (static_cast<ptrdiff_t>(weights.starts[i] - from) * kChannels + j % kChannels) * kLanes;
  Sums16 sums;
  const int32_t taps = weights.taps[i];
  for (int32_t k = 0; k < taps; ++k, at += kLanes * kChannels) sums.add(at, w[k]);
  return sums.clip();
}

template <int kChannels>
void across_strip(const uint8_t* columns, const ResizeWeights& weights, int32_t from,
                  uint8_t* const (&rows)[kLanes]) {
  const auto count = static_cast<int32_t>(weights.starts.size()) * kChannels;
  int32_t j = 0;
  for (; j + kBlock <= count; j += kBlock) {
    Halves pairs[2][4];  // columns 2n and 2n + 1: of the first eight rows, of the others
    for (int n = 0; n < kBlock; n += 2) {
      const auto even =
          reinterpret_cast<Halves>(filter_column<kChannels>(columns, weights, from, j + n));
      const auto odd =
          reinterpret_cast<Halves>(filter_column<kChannels>(columns, weights, from, j + n + 1));
      pairs[0][n / 2] = __builtin_shufflevector(even, odd, 0, 2);
      pairs[1][n / 2] = __builtin_shufflevector(even, odd, 1, 3);
    }
    for (int half = 0; half < 2; ++half) {
      Bytes16 block[4];
      for (int n = 0; n < 4; ++n) block[n] = reinterpret_cast<Bytes16>(pairs[half][n]);
      transpose(block);
      for (int r = 0; r < kBlock; ++r) {
        const uint64_t row = reinterpret_cast<Halves>(block[r / 2])[r % 2];
        std::memcpy(rows[half * kBlock + r] + j, &row, sizeof row);
      }
    }
  }
  for (; j < count; ++j) {
    const Bytes16 column = filter_column<kChannels>(columns, weights, from, j);
    for (int r = 0; r < kLanes; ++r) rows[r][j] = column[r];
  }
}

// 16 * kCount new samples of one row.
template <int kCount>
void down_block(const uint8_t* from, ptrdiff_t from_stride, const int32_t* weights, int32_t taps,
                uint8_t* to) {
  Sums16 sums[kCount];
  for (int32_t k = 0; k < taps; ++k, from += from_stride) {
    for (int n = 0; n < kCount; ++n) sums[n].add(from + n * kLanes, weights[k]);
  }
  for (int n = 0; n < kCount; ++n) {
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
  for (; x + 32 <= bytes; x += 32) down_block<2>(from + x, from_stride, weights, taps, to + x);
  for (; x + 16 <= bytes; x += 16) down_block<1>(from + x, from_stride, weights, taps, to + x);
  for (; x < bytes; ++x) {
    int32_t sum = kHalf;
    for (int32_t k = 0; k < taps; ++k) sum += from[k * from_stride + x] * weights[k];
    to[x] = static_cast<uint8_t>(std::clamp(sum >> ResizeWeights::kBits, 0, 255));
  }
}

}  // namespace overlord::media
