// The weights of a resize in whole numbers: positions are exact fractions, filter values count
// 2^-28, and the rounded weights of a pixel always add up to one.
#include <algorithm>
#include <cstdlib>

#include "overlord/media/image/resize.h"

namespace overlord::media {
namespace {

constexpr int kBits = 28;
constexpr int64_t kOne = int64_t{1} << kBits;

constexpr int64_t times(int64_t a, int64_t b) { return (a * b) >> kBits; }

// sin(pi * x) for 0 <= x <= 1, by its series around 0 on half the range.
int64_t sine_of_half_turns(int64_t x) {
  if (2 * x > kOne) x = kOne - x;
  constexpr int64_t kPi = 843314857;  // pi * 2^28
  const int64_t angle = times(x, kPi);
  const int64_t square = times(angle, angle);
  int64_t sum = 0;
  // Horner over (-1)^n / (2n + 1)!, from n = 7 down.
  for (int64_t n = 7; n >= 1; --n) sum = -times(square, kOne + sum) / (2 * n * (2 * n + 1));
  return times(angle, kOne + sum);
}

// sin(pi x) / (pi x) for x >= 0.
int64_t sinc(int64_t x) {
  if (x == 0) return kOne;
  constexpr int64_t kPi = 843314857;
  const int64_t whole = x >> kBits;
  const int64_t sine = sine_of_half_turns(x & (kOne - 1));
  const int64_t value = (sine << kBits) / times(x, kPi);
  return whole % 2 == 0 ? value : -value;
}

// x >= 0.
int64_t filter_value(ResizeFilter filter, int64_t x) {
  switch (filter) {
    case ResizeFilter::kBilinear:
      return x < kOne ? kOne - x : 0;
    case ResizeFilter::kBicubic:
      // Keys' cubic with a = -1/2.
      if (x < kOne) return times(times(3 * x / 2 - 5 * kOne / 2, x), x) + kOne;
      if (x < 2 * kOne) {
        return times(times(5 * kOne / 2 - x / 2, x) - 4 * kOne, x) + 2 * kOne;
      }
      return 0;
    case ResizeFilter::kLanczos:
      return x < 3 * kOne ? times(sinc(x), sinc(x / 3)) : 0;
  }
  return 0;
}

int64_t filter_reach(ResizeFilter filter) {
  switch (filter) {
    case ResizeFilter::kBilinear:
      return 1;
    case ResizeFilter::kBicubic:
      return 2;
    case ResizeFilter::kLanczos:
      return 3;
  }
  return 1;
}

int64_t floor_divide(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

// Scales to weights that add up to one; what rounding leaves goes to the largest.
void round_weights(const int64_t* values, int64_t sum, int32_t taps, int32_t* out) {
  constexpr int64_t kWeightOne = int64_t{1} << ResizeWeights::kBits;
  int64_t left = kWeightOne;
  int32_t largest = 0;
  for (int32_t k = 0; k < taps; ++k) {
    out[k] = static_cast<int32_t>(floor_divide(2 * values[k] * kWeightOne + sum, 2 * sum));
    left -= out[k];
    if (out[k] > out[largest]) largest = k;
  }
  out[largest] = static_cast<int32_t>(out[largest] + left);
}

}  // namespace

void make_weights(const ResizeAxis& axis, ResizeFilter filter, ResizeWeights* out) {
  // Everything counts in 1 / (2 * size * per) source samples.
  const int64_t size = axis.size;
  const int64_t unit = 2 * size * axis.per;
  const int64_t step = 2 * axis.length;  // one new sample
  const bool shrinks = axis.length > size * axis.per;
  // One unit of the filter's argument: a new sample when shrinking, a source sample otherwise.
  const int64_t filter_unit = shrinks ? step : unit;
  const int64_t reach = filter_reach(filter) * filter_unit;
  out->stride = static_cast<int32_t>(
      std::min<int64_t>(2 * reach / unit + 3, std::max(axis.high - axis.low, 1)));
  const auto count = static_cast<size_t>(axis.count);
  const auto stride = static_cast<size_t>(out->stride);
  out->starts.resize(count);
  out->taps.resize(count);
  out->weights.assign(count * stride, 0);
  std::vector<int64_t> values(count * stride);
  std::vector<int64_t> sums(count);
  for (size_t i = 0; i < count; ++i) {
    const int64_t centre =
        2 * size * axis.start + (2 * (axis.first + static_cast<int64_t>(i)) + 1) * axis.length;
    const int64_t half = unit / 2;
    int64_t from = floor_divide(centre - reach + half, unit);
    int64_t to = floor_divide(centre + reach + half, unit);
    from = std::clamp<int64_t>(from, axis.low, axis.high - 1);
    to = std::clamp<int64_t>(to, from + 1, axis.high);
    OVERLORD_CHECK(to - from <= out->stride, "resize reaches further than its weights");
    int64_t* const row = values.data() + i * stride;
    for (int64_t x = from; x < to; ++x) {
      // Below four filter units, each below 2^33: the shift fits.
      const int64_t distance = std::abs(x * unit + half - centre);
      const int64_t argument =
          (distance / filter_unit << kBits) + ((distance % filter_unit) << kBits) / filter_unit;
      row[x - from] = filter_value(filter, argument);
      sums[i] += row[x - from];
    }
    if (sums[i] <= 0) {  // the one sample there is lies outside the filter
      row[0] = sums[i] = kOne;
    }
    out->starts[i] = static_cast<int32_t>(from);
    out->taps[i] = static_cast<int32_t>(to - from);
  }
  for (size_t i = 0; i < count; ++i) {
    round_weights(values.data() + i * stride, sums[i], out->taps[i],
                  out->weights.data() + i * stride);
  }
}

}  // namespace overlord::media
