#include "overlord/media/image/resize_kernels.h"

#include <algorithm>
#include <bit>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

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

// Sixteen running sums of samples times weights, wherever a tap's sixteen samples lie.
#ifdef __SSE2__
// x86-64 has no multiply of 32 bits before SSE 4.1, but one of pairs of 16 bits that adds the two
// up: taps are taken two by two, with the upper and the lower part of their weights apart. All sums
// are taken modulo 2^32, so what comes out is the same.
class Sums16 {
 public:
  // One after the other: the registers hold the sums of one.
  template <int kCount>
  static void add_taps(const uint8_t* samples, ptrdiff_t step, const int32_t* weights, int32_t taps,
                       Sums16 (&sums)[kCount]) {
    for (int n = 0; n < kCount; ++n) sums[n].add_taps(samples + n * kLanes, step, weights, taps);
  }

  Bytes16 clip() const {
    __m128i sums[4];
    for (int n = 0; n < 4; ++n) {
      const __m128i sum = _mm_add_epi32(_mm_slli_epi32(upper_[n], kLowerBits), lower_[n]);
      sums[n] = _mm_srai_epi32(_mm_add_epi32(sum, _mm_set1_epi32(kHalf)), ResizeWeights::kBits);
    }
    return reinterpret_cast<Bytes16>(
        _mm_packus_epi16(_mm_packs_epi32(sums[0], sums[1]), _mm_packs_epi32(sums[2], sums[3])));
  }

 private:
  static constexpr int kLowerBits = 12;

  void add_taps(const uint8_t* samples, ptrdiff_t step, const int32_t* weights, int32_t taps) {
    int32_t k = 0;
    for (; k + 2 <= taps; k += 2, samples += 2 * step) {
      add_pair(samples, samples + step, _mm_loadl_epi64(as_vector(weights + k)));
    }
    if (k < taps) add_pair(samples, samples, _mm_cvtsi32_si128(weights[k]));
  }

  static const __m128i* as_vector(const void* at) { return static_cast<const __m128i*>(at); }

  void add_pair(const uint8_t* first, const uint8_t* second, __m128i weights) {
    const __m128i parts =
        _mm_packs_epi32(_mm_and_si128(weights, _mm_set1_epi32((1 << kLowerBits) - 1)),
                        _mm_srai_epi32(weights, kLowerBits));
    const __m128i lower = _mm_shuffle_epi32(parts, 0x00);
    const __m128i upper = _mm_shuffle_epi32(parts, 0xAA);
    const __m128i a = _mm_loadu_si128(as_vector(first));
    const __m128i b = _mm_loadu_si128(as_vector(second));
    const __m128i zero = _mm_setzero_si128();
    const __m128i low = _mm_unpacklo_epi8(a, b);
    const __m128i high = _mm_unpackhi_epi8(a, b);
    const __m128i pairs[4] = {_mm_unpacklo_epi8(low, zero), _mm_unpackhi_epi8(low, zero),
                              _mm_unpacklo_epi8(high, zero), _mm_unpackhi_epi8(high, zero)};
    for (int n = 0; n < 4; ++n) {
      lower_[n] = _mm_add_epi32(lower_[n], _mm_madd_epi16(pairs[n], lower));
      upper_[n] = _mm_add_epi32(upper_[n], _mm_madd_epi16(pairs[n], upper));
    }
  }

  __m128i lower_[4] = {};
  __m128i upper_[4] = {};
};
#else
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

  template <int kCount>
  static void add_taps(const uint8_t* samples, ptrdiff_t step, const int32_t* weights, int32_t taps,
                       Sums16 (&sums)[kCount]) {
    for (int32_t k = 0; k < taps; ++k, samples += step) {
      for (int n = 0; n < kCount; ++n) sums[n].add(samples + n * kLanes, weights[k]);
    }
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
#endif

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
  const uint8_t* const at =
      columns +
      (static_cast<ptrdiff_t>(weights.starts[i] - from) * kChannels + j % kChannels) * kLanes;
  Sums16 sums[1];
  Sums16::add_taps(at, kLanes * kChannels, w, weights.taps[i], sums);
  return sums[0].clip();
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
  Sums16::add_taps(from, from_stride, weights, taps, sums);
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
