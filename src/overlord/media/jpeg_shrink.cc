#include "overlord/media/jpeg_shrink.h"

#include <cstring>

namespace overlord::media {
namespace {

using Bytes16 = uint8_t __attribute__((vector_size(16)));
using Words8 = int16_t __attribute__((vector_size(16)));

constexpr int kLanes = 8;
constexpr int kConstantBits = 13;
constexpr int kKeptBits = 2;  // below the point, between the passes

// What becomes of a sum at the end of a pass. A transform to half the size adds up pairs without
// halving them, one to a quarter quads: one and two bits more to drop.
template <int kSize>
struct Between {
  using Sample = int16_t;
  static constexpr int kDrop = kConstantBits - kKeptBits + (kSize == 4) + 2 * (kSize == 2);
  static int16_t of(int32_t sum) {
    return static_cast<int16_t>((sum + (1 << (kDrop - 1))) >> kDrop);
  }
};
template <int kSize>
struct Final {
  using Sample = uint8_t;
  static constexpr int kDrop = kConstantBits + kKeptBits + 3 + (kSize == 4) + 2 * (kSize == 2);
  static uint8_t of(int32_t sum) {
    const int32_t sample = (sum + (128 << kDrop) + (1 << (kDrop - 1))) >> kDrop;
    return static_cast<uint8_t>(sample < 0 ? 0 : sample > 255 ? 255 : sample);
  }
};

// One pass over eight lanes: in[k] holds coefficient k < kInputs of each lane, out[n] sample n.
// Constants count 2^-13: root(2) * cos(k * pi / 16) and what sums of them the fast algorithm is
// made of, whose rounding they keep.
template <int kInputs, template <int> typename Pass>
void to_8(const int16_t (*__restrict in)[kLanes],
          typename Pass<8>::Sample (*__restrict out)[kLanes]) {
  for (int i = 0; i < kLanes; ++i) {
    const auto high = [&](int k) -> int32_t { return kInputs == 8 ? in[k][i] : 0; };
    const int32_t sum = in[0][i] * 8192 + high(4) * 8192;
    const int32_t difference = in[0][i] * 8192 - high(4) * 8192;
    const int32_t wide = in[2][i] * 10703 + high(6) * 4433;
    const int32_t narrow = in[2][i] * 4433 - high(6) * 10704;
    const int32_t odd0 = in[1][i] * 11363 + in[3][i] * 9633 + high(5) * 6437 + high(7) * 2260;
    const int32_t odd1 = in[1][i] * 9633 - in[3][i] * 2259 - high(5) * 11362 - high(7) * 6436;
    const int32_t odd2 = in[1][i] * 6437 - in[3][i] * 11362 + high(5) * 2261 + high(7) * 9633;
    const int32_t odd3 = in[1][i] * 2260 - in[3][i] * 6436 + high(5) * 9633 - high(7) * 11363;
    out[0][i] = Pass<8>::of(sum + wide + odd0);
    out[7][i] = Pass<8>::of(sum + wide - odd0);
    out[1][i] = Pass<8>::of(difference + narrow + odd1);
    out[6][i] = Pass<8>::of(difference + narrow - odd1);
    out[2][i] = Pass<8>::of(difference - narrow + odd2);
    out[5][i] = Pass<8>::of(difference - narrow - odd2);
    out[3][i] = Pass<8>::of(sum - wide + odd3);
    out[4][i] = Pass<8>::of(sum - wide - odd3);
  }
}

// Sums of neighbours n and n + 1; coefficient 4 cancels out.
template <int kInputs, template <int> typename Pass>
void to_4(const int16_t (*__restrict in)[kLanes],
          typename Pass<4>::Sample (*__restrict out)[kLanes]) {
  for (int i = 0; i < kLanes; ++i) {
    const auto high = [&](int k) -> int32_t { return kInputs == 8 ? in[k][i] : 0; };
    const int32_t base = in[0][i] * 16384;
    const int32_t even = in[2][i] * 15137 - high(6) * 6270;
    const int32_t outer = in[1][i] * 20995 + in[3][i] * 7373 - high(5) * 4926 - high(7) * 4176;
    const int32_t inner = in[1][i] * 8697 - in[3][i] * 17799 + high(5) * 11893 - high(7) * 1730;
    out[0][i] = Pass<4>::of(base + even + outer);
    out[3][i] = Pass<4>::of(base + even - outer);
    out[1][i] = Pass<4>::of(base - even + inner);
    out[2][i] = Pass<4>::of(base - even - inner);
  }
}

// Sums of four; all even coefficients but the first cancel out.
template <int kInputs, template <int> typename Pass>
void to_2(const int16_t (*__restrict in)[kLanes],
          typename Pass<2>::Sample (*__restrict out)[kLanes]) {
  for (int i = 0; i < kLanes; ++i) {
    const auto high = [&](int k) -> int32_t { return kInputs == 8 ? in[k][i] : 0; };
    const int32_t base = in[0][i] * 16384 + in[0][i] * 16384;
    const int32_t odd = in[1][i] * 29692 - in[3][i] * 10426 + high(5) * 6967 - high(7) * 5906;
    out[0][i] = Pass<2>::of(base + odd);
    out[1][i] = Pass<2>::of(base - odd);
  }
}

template <int kSize, int kInputs, template <int> typename Pass>
void transform(const int16_t (*in)[kLanes], typename Pass<kSize>::Sample (*out)[kLanes]) {
  if constexpr (kSize == 8) {
    to_8<kInputs, Pass>(in, out);
  } else if constexpr (kSize == 4) {
    to_4<kInputs, Pass>(in, out);
  } else {
    to_2<kInputs, Pass>(in, out);
  }
}

// Three perfect shuffles of all 64 numbers make columns of the rows.
inline void transpose(const int16_t (*from)[kLanes], int16_t (*to)[kLanes]) {
  Words8 v[kLanes];
  std::memcpy(v, from, sizeof v);
  for (int round = 0; round < 3; ++round) {
    Words8 next[kLanes];
    for (int n = 0; n < 4; ++n) {
      next[2 * n] = __builtin_shufflevector(v[n], v[n + 4], 0, 8, 1, 9, 2, 10, 3, 11);
      next[2 * n + 1] = __builtin_shufflevector(v[n], v[n + 4], 4, 12, 5, 13, 6, 14, 7, 15);
    }
    for (int n = 0; n < kLanes; ++n) v[n] = next[n];
  }
  std::memcpy(to, v, sizeof v);
}

// kSize rows of eight bytes become eight rows of kSize bytes.
template <int kSize>
inline void transpose_bytes(const uint8_t (*from)[kLanes], uint8_t (*to)[kSize]) {
  constexpr int kVectors = kSize / 2;
  Bytes16 v[kVectors];
  std::memcpy(v, from, sizeof v);
  if constexpr (kVectors == 1) {
    v[0] =
        __builtin_shufflevector(v[0], v[0], 0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
  } else {
    for (int round = 1; round < kSize; round *= 2) {
      Bytes16 next[kVectors];
      for (int n = 0; n < kVectors / 2; ++n) {
        const Bytes16 a = v[n];
        const Bytes16 b = v[n + kVectors / 2];
        next[2 * n] =
            __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
        next[2 * n + 1] = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13,
                                                  29, 14, 30, 15, 31);
      }
      for (int n = 0; n < kVectors; ++n) v[n] = next[n];
    }
  }
  std::memcpy(to, v, sizeof v);
}

}  // namespace

template <int kSize>
void BlockShrinker::finish(Strip& strip) {
  alignas(16) int16_t columns[kLanes][kLanes];
  alignas(16) uint8_t samples[kSize][kLanes];
  alignas(16) uint8_t rows[kLanes][kSize];
  transpose(strip.rows, columns);
  if (strip.low) {
    transform<kSize, 4, Final>(columns, samples);
  } else {
    transform<kSize, 8, Final>(columns, samples);
  }
  transpose_bytes<kSize>(samples, rows);
  for (int block = 0; block < strip.blocks; ++block) {
    uint8_t* to = strip.to[block];
    for (int y = 0; y < kSize; ++y, to += strip.strides[block]) {
      std::memcpy(to, rows[block * kSize + y], kSize);
    }
  }
  strip.blocks = 0;
  strip.low = true;
}

template <int kSize>
void BlockShrinker::add_to(const CoefficientBlock& block, bool low, Strip& strip, uint8_t* to,
                           ptrdiff_t stride) {
  const auto* const in = reinterpret_cast<const int16_t (*)[kLanes]>(block.values);
  int16_t (*const rows)[kLanes] = strip.rows + strip.blocks * kSize;
  if (low) {
    transform<kSize, 4, Between>(in, rows);
  } else {
    transform<kSize, 8, Between>(in, rows);
    strip.low = false;
  }
  strip.to[strip.blocks] = to;
  strip.strides[strip.blocks] = stride;
  ++strip.blocks;
  if (strip.blocks == kLanes / kSize) finish<kSize>(strip);
}

void BlockShrinker::add(const CoefficientBlock& block, bool low, int32_t size, uint8_t* to,
                        ptrdiff_t stride) {
  if (size == 4) {
    add_to<4>(block, low, strips_[1], to, stride);
  } else if (size == 2) {
    add_to<2>(block, low, strips_[2], to, stride);
  } else {
    add_to<8>(block, low, strips_[0], to, stride);
  }
}

void BlockShrinker::flush() {
  if (strips_[1].blocks > 0) finish<4>(strips_[1]);
  if (strips_[2].blocks > 0) finish<2>(strips_[2]);
}

}  // namespace overlord::media
