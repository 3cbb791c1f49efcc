#include "overlord/media/image/codecs/jpeg_shrink.h"

#include <algorithm>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace overlord::media {
namespace {

using Bytes16 = uint8_t __attribute__((vector_size(16)));
using Words8 = int16_t __attribute__((vector_size(16)));

constexpr int kLanes = 8;
constexpr int kConstantBits = 13;
constexpr int kKeptBits = 2;  // below the point, between the passes

// Coefficients of one or of all eight lanes, and sums of products of them. x86-64 has no multiply
// of 32 bits before SSE 4.1, but one of pairs of 16 bits that adds the two up, which is all that
// the transforms need; elsewhere compilers make vectors of the plain loop.
#ifdef __SSE2__
struct Lanes {
  static constexpr int kAtOnce = kLanes;
  using Values = __m128i;
  struct Sums {
    __m128i low;
    __m128i high;
    Sums operator+(const Sums& b) const {
      return {_mm_add_epi32(low, b.low), _mm_add_epi32(high, b.high)};
    }
    Sums operator-(const Sums& b) const {
      return {_mm_sub_epi32(low, b.low), _mm_sub_epi32(high, b.high)};
    }
  };
  static Values load(const int16_t* from) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  }
  static Values zero() { return _mm_setzero_si128(); }
  static Sums dot(Values a, int16_t by_a, Values b, int16_t by_b) {
    const __m128i by = _mm_unpacklo_epi16(_mm_set1_epi16(by_a), _mm_set1_epi16(by_b));
    return {_mm_madd_epi16(_mm_unpacklo_epi16(a, b), by),
            _mm_madd_epi16(_mm_unpackhi_epi16(a, b), by)};
  }
  // Saturation changes nothing between the passes: numbers of tame blocks fit.
  template <int kDrop>
  static __m128i words(const Sums& sums, int32_t more) {
    const __m128i added = _mm_set1_epi32(more + (1 << (kDrop - 1)));
    return _mm_packs_epi32(_mm_srai_epi32(_mm_add_epi32(sums.low, added), kDrop),
                           _mm_srai_epi32(_mm_add_epi32(sums.high, added), kDrop));
  }
  template <int kDrop>
  static void store(const Sums& sums, int16_t* to) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), words<kDrop>(sums, 0));
  }
  template <int kDrop>
  static void store(const Sums& sums, uint8_t* to) {
    const __m128i samples = words<kDrop>(sums, 128 << kDrop);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packus_epi16(samples, samples));
  }
};
#else
struct Lanes {
  static constexpr int kAtOnce = 1;
  using Values = int32_t;
  using Sums = int32_t;
  static Values load(const int16_t* from) { return *from; }
  static Values zero() { return 0; }
  static Sums dot(Values a, int16_t by_a, Values b, int16_t by_b) { return a * by_a + b * by_b; }
  template <int kDrop>
  static void store(Sums sum, int16_t* to) {
    *to = static_cast<int16_t>((sum + (1 << (kDrop - 1))) >> kDrop);
  }
  template <int kDrop>
  static void store(Sums sum, uint8_t* to) {
    const int32_t sample = (sum + (128 << kDrop) + (1 << (kDrop - 1))) >> kDrop;
    *to = static_cast<uint8_t>(std::clamp(sample, 0, 255));
  }
};
#endif

// The bits to drop at the end of a pass, before numbers go between the passes or become samples. A
// transform to half the size adds up pairs without halving them, one to a quarter quads: one and
// two bits more.
template <int kSize, typename To>
constexpr int kDrop =
    (sizeof(To) == 1 ? kConstantBits + kKeptBits + 3 : kConstantBits - kKeptBits) + (kSize == 4) +
    2 * (kSize == 2);

// One pass over eight lanes: in[k] holds coefficient k < kInputs of each lane, out[n] sample n.
// Constants count 2^-13: root(2) * cos(k * pi / 16) and what sums of them the fast algorithm is
// made of, whose rounding they keep.
template <int kInputs, typename To>
void to_8(const int16_t (*__restrict in)[kLanes], To (*__restrict out)[kLanes]) {
  constexpr int kBits = kDrop<8, To>;
  for (int i = 0; i < kLanes; i += Lanes::kAtOnce) {
    const auto at = [&](int k) { return k < kInputs ? Lanes::load(in[k] + i) : Lanes::zero(); };
    const Lanes::Sums sum = Lanes::dot(at(0), 8192, at(4), 8192);
    const Lanes::Sums difference = Lanes::dot(at(0), 8192, at(4), -8192);
    const Lanes::Sums wide = Lanes::dot(at(2), 10703, at(6), 4433);
    const Lanes::Sums narrow = Lanes::dot(at(2), 4433, at(6), -10704);
    const auto odd = [&](int16_t by1, int16_t by3, int16_t by5, int16_t by7) {
      const Lanes::Sums low = Lanes::dot(at(1), by1, at(3), by3);
      return kInputs == 8 ? low + Lanes::dot(at(5), by5, at(7), by7) : low;
    };
    const Lanes::Sums odd0 = odd(11363, 9633, 6437, 2260);
    const Lanes::Sums odd1 = odd(9633, -2259, -11362, -6436);
    const Lanes::Sums odd2 = odd(6437, -11362, 2261, 9633);
    const Lanes::Sums odd3 = odd(2260, -6436, 9633, -11363);
    Lanes::store<kBits>(sum + wide + odd0, out[0] + i);
    Lanes::store<kBits>(sum + wide - odd0, out[7] + i);
    Lanes::store<kBits>(difference + narrow + odd1, out[1] + i);
    Lanes::store<kBits>(difference + narrow - odd1, out[6] + i);
    Lanes::store<kBits>(difference - narrow + odd2, out[2] + i);
    Lanes::store<kBits>(difference - narrow - odd2, out[5] + i);
    Lanes::store<kBits>(sum - wide + odd3, out[3] + i);
    Lanes::store<kBits>(sum - wide - odd3, out[4] + i);
  }
}

// Sums of neighbours n and n + 1; coefficient 4 cancels out.
template <int kInputs, typename To>
void to_4(const int16_t (*__restrict in)[kLanes], To (*__restrict out)[kLanes]) {
  constexpr int kBits = kDrop<4, To>;
  for (int i = 0; i < kLanes; i += Lanes::kAtOnce) {
    const auto at = [&](int k) { return k < kInputs ? Lanes::load(in[k] + i) : Lanes::zero(); };
    const Lanes::Sums base = Lanes::dot(at(0), 16384, Lanes::zero(), 0);
    const Lanes::Sums even = Lanes::dot(at(2), 15137, at(6), -6270);
    Lanes::Sums outer = Lanes::dot(at(1), 20995, at(3), 7373);
    Lanes::Sums inner = Lanes::dot(at(1), 8697, at(3), -17799);
    if (kInputs == 8) {
      outer = outer + Lanes::dot(at(5), -4926, at(7), -4176);
      inner = inner + Lanes::dot(at(5), 11893, at(7), -1730);
    }
    Lanes::store<kBits>(base + even + outer, out[0] + i);
    Lanes::store<kBits>(base + even - outer, out[3] + i);
    Lanes::store<kBits>(base - even + inner, out[1] + i);
    Lanes::store<kBits>(base - even - inner, out[2] + i);
  }
}

// Sums of four; all even coefficients but the first cancel out.
template <int kInputs, typename To>
void to_2(const int16_t (*__restrict in)[kLanes], To (*__restrict out)[kLanes]) {
  constexpr int kBits = kDrop<2, To>;
  for (int i = 0; i < kLanes; i += Lanes::kAtOnce) {
    const auto at = [&](int k) { return k < kInputs ? Lanes::load(in[k] + i) : Lanes::zero(); };
    const Lanes::Sums base = Lanes::dot(at(0), 16384, at(0), 16384);
    Lanes::Sums odd = Lanes::dot(at(1), 29692, at(3), -10426);
    if (kInputs == 8) odd = odd + Lanes::dot(at(5), 6967, at(7), -5906);
    Lanes::store<kBits>(base + odd, out[0] + i);
    Lanes::store<kBits>(base - odd, out[1] + i);
  }
}

template <int kSize, int kInputs, typename To>
void transform(const int16_t (*in)[kLanes], To (*out)[kLanes]) {
  if constexpr (kSize == 8) {
    to_8<kInputs>(in, out);
  } else if constexpr (kSize == 4) {
    to_4<kInputs>(in, out);
  } else {
    to_2<kInputs>(in, out);
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
    transform<kSize, 4>(columns, samples);
  } else {
    transform<kSize, 8>(columns, samples);
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
    transform<kSize, 4>(in, rows);
  } else {
    transform<kSize, 8>(in, rows);
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
