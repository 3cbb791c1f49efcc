#include "overlord/media/audio/fft_400.h"

#include <array>
#include <cstdint>
#include <cstring>

#include "overlord/media/fixed_math.h"

namespace overlord::media {
namespace {

constexpr size_t kHalf = kFftSize / 2;  // complex points: even samples real, odd ones imaginary

struct Complex {
  Floats4 re;
  Floats4 im;
};

struct Turn {
  float re;
  float im;
};

struct Tables {
  std::array<float, kFftSize> hann;
  std::array<Turn, kHalf> half;       // exp(-2 pi i k / 200)
  std::array<Turn, kHalf + 1> whole;  // exp(-2 pi i k / 400)

  Tables() {
    constexpr auto kSize = static_cast<int64_t>(kFftSize);
    for (int64_t k = 0; k < kSize; ++k) {
      hann[static_cast<size_t>(k)] = static_cast<float>(0.5 - 0.5 * cos_of_turn(k, kSize));
    }
    const auto turn = [](int64_t k, int64_t n) {
      return Turn{static_cast<float>(cos_of_turn(k, n)), static_cast<float>(-sin_of_turn(k, n))};
    };
    for (int64_t k = 0; k < kSize / 2; ++k) half[static_cast<size_t>(k)] = turn(k, kSize / 2);
    for (int64_t k = 0; k <= kSize / 2; ++k) whole[static_cast<size_t>(k)] = turn(k, kSize);
  }
};

const Tables& tables() {
  static const auto* const made = new Tables();
  return *made;
}

inline Complex operator+(const Complex& a, const Complex& b) { return {a.re + b.re, a.im + b.im}; }
inline Complex operator-(const Complex& a, const Complex& b) { return {a.re - b.re, a.im - b.im}; }
inline Complex operator*(const Complex& a, Turn t) {
  return {a.re * t.re - a.im * t.im, a.re * t.im + a.im * t.re};
}
// a + factor * (-i) b
inline Complex minus_i(const Complex& a, const Complex& b) { return {a.re + b.im, a.im - b.re}; }
inline Complex plus_i(const Complex& a, const Complex& b) { return {a.re - b.im, a.im + b.re}; }

// One pass of a self-sorting transform: `count` points are left in each of `stride` transforms.
// Points a radix apart are combined, turned, and written next to each other.
inline void pass5(const Complex* in, Complex* out, size_t count, size_t stride, const Turn* turns) {
  constexpr float kCos1 = 0.30901699437494742F;
  constexpr float kCos2 = -0.80901699437494742F;
  constexpr float kSin1 = 0.95105651629515357F;
  constexpr float kSin2 = 0.58778525229247313F;
  const size_t m = count / 5;
  const size_t step = kHalf / count;
  for (size_t p = 0; p < m; ++p) {
    for (size_t q = 0; q < stride; ++q) {
      const Complex* const x = in + q + stride * p;
      const Complex x0 = x[0];
      const Complex x1 = x[stride * m];
      const Complex x2 = x[stride * m * 2];
      const Complex x3 = x[stride * m * 3];
      const Complex x4 = x[stride * m * 4];
      const Complex s1 = x1 + x4;
      const Complex s2 = x2 + x3;
      const Complex d1 = x1 - x4;
      const Complex d2 = x2 - x3;
      const Complex a1 = {x0.re + kCos1 * s1.re + kCos2 * s2.re,
                          x0.im + kCos1 * s1.im + kCos2 * s2.im};
      const Complex a2 = {x0.re + kCos2 * s1.re + kCos1 * s2.re,
                          x0.im + kCos2 * s1.im + kCos1 * s2.im};
      const Complex b1 = {kSin1 * d1.re + kSin2 * d2.re, kSin1 * d1.im + kSin2 * d2.im};
      const Complex b2 = {kSin2 * d1.re - kSin1 * d2.re, kSin2 * d1.im - kSin1 * d2.im};
      Complex* const y = out + q + stride * 5 * p;
      y[0] = x0 + s1 + s2;
      y[stride] = minus_i(a1, b1) * turns[p * step];
      y[stride * 2] = minus_i(a2, b2) * turns[2 * p * step];
      y[stride * 3] = plus_i(a2, b2) * turns[3 * p * step];
      y[stride * 4] = plus_i(a1, b1) * turns[4 * p * step];
    }
  }
}

// The same with radix 8 over the last 8 points: nothing is left to turn.
inline void last_pass8(const Complex* in, Complex* out, size_t stride) {
  constexpr float kRoot = 0.70710678118654752F;
  for (size_t q = 0; q < stride; ++q) {
    const Complex* const x = in + q;
    const auto at = [&](size_t k) { return x[stride * k]; };
    // Even points.
    const Complex e0 = at(0) + at(4);
    const Complex e1 = at(0) - at(4);
    const Complex e2 = at(2) + at(6);
    const Complex e3 = at(2) - at(6);
    const Complex even[4] = {e0 + e2, minus_i(e1, e3), e0 - e2, plus_i(e1, e3)};
    const Complex o0 = at(1) + at(5);
    const Complex o1 = at(1) - at(5);
    const Complex o2 = at(3) + at(7);
    const Complex o3 = at(3) - at(7);
    const Complex odd1 = minus_i(o1, o3);
    const Complex odd2 = o0 - o2;
    const Complex odd3 = plus_i(o1, o3);
    const Complex turned[4] = {
        o0 + o2,
        {kRoot * (odd1.re + odd1.im), kRoot * (odd1.im - odd1.re)},
        {odd2.im, -odd2.re},
        {kRoot * (odd3.im - odd3.re), -kRoot * (odd3.re + odd3.im)},
    };
    for (size_t k = 0; k < 4; ++k) {
      out[q + stride * k] = even[k] + turned[k];
      out[q + stride * (k + 4)] = even[k] - turned[k];
    }
  }
}

inline Floats4 load(const float* from) {
  Floats4 values;
  std::memcpy(&values, from, sizeof values);
  return values;
}

// Four samples of four windows become two complex points of four lanes.
inline void gather(const float* const (&starts)[4], Complex* points) {
  const std::array<float, kFftSize>& hann = tables().hann;
  for (size_t n = 0; n < kFftSize; n += 4) {
    const Floats4 weight = load(hann.data() + n);
    const Floats4 a = load(starts[0] + n) * weight;
    const Floats4 b = load(starts[1] + n) * weight;
    const Floats4 c = load(starts[2] + n) * weight;
    const Floats4 d = load(starts[3] + n) * weight;
    const Floats4 ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    const Floats4 ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const Floats4 cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    const Floats4 cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    points[n / 2] = {__builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5),
                     __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7)};
    points[n / 2 + 1] = {__builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5),
                         __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7)};
  }
}

}  // namespace

void power_of_four(const float* const (&starts)[4], Floats4 (&power)[kFftBins]) {
  Complex a[kHalf];
  Complex b[kHalf];
  const Tables& table = tables();
  gather(starts, a);
  pass5(a, b, 200, 1, table.half.data());
  pass5(b, a, 40, 5, table.half.data());
  last_pass8(a, b, 25);
  // Out of the spectrum of even + i odd samples, that of the samples: both halves at once.
  for (size_t k = 0; k <= kHalf / 2; ++k) {
    const Complex z = b[k];
    const Complex mirrored = b[k == 0 ? 0 : kHalf - k];
    const Complex even = {z.re + mirrored.re, z.im - mirrored.im};
    const Complex odd = {z.im + mirrored.im, mirrored.re - z.re};
    const Complex turned = odd * table.whole[k];
    const Complex low = even + turned;
    const Complex high = even - turned;
    power[k] = 0.25F * (low.re * low.re + low.im * low.im);
    power[kHalf - k] = 0.25F * (high.re * high.re + high.im * high.im);
  }
}

}  // namespace overlord::media
