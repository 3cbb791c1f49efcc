#include "overlord/media/audio/resample.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>

#include "overlord/media/fixed_math.h"

namespace overlord::media {
namespace {

// The compiler's own vectors: the same arithmetic on every CPU.
using Floats4 = float __attribute__((vector_size(16)));
constexpr int64_t kStep = 8;
constexpr int64_t kMostTableValues = int64_t{1} << 20;

struct FilterShape {
  int64_t crossings;
  double beta;
  int64_t pass_permille;  // of half the lower rate: where the filter's edge is centred
};

FilterShape shape_of(ResampleQuality quality) {
  switch (quality) {
    case ResampleQuality::kFast:
      return {8, 6.0, 850};
    case ResampleQuality::kStandard:
      return {16, 9.0, 900};
    case ResampleQuality::kHigh:
      return {32, 12.0, 940};
  }
  return {16, 9.0, 900};
}

inline Floats4 load(const float* from) {
  Floats4 values;
  std::memcpy(&values, from, sizeof values);
  return values;
}

// Eight sums side by side, then added up in one fixed order.
inline float dot(const float* a, const float* b, int64_t count) {
  Floats4 low = {};
  Floats4 high = {};
  for (int64_t i = 0; i < count; i += kStep) {
    low += load(a + i) * load(b + i);
    high += load(a + i + 4) * load(b + i + 4);
  }
  const Floats4 both = low + high;
  return (both[0] + both[2]) + (both[1] + both[3]);
}

}  // namespace

int64_t resampled_length(int64_t frames, int32_t from_rate, int32_t to_rate) {
  const int64_t common = std::gcd(from_rate, to_rate);
  const int64_t up = to_rate / common;
  const int64_t down = from_rate / common;
  // frames is at most 2^40 and up at most 10^6: within 64 bits.
  return (frames * up + down - 1) / down;
}

int64_t Resampler::length(int64_t frames) const {
  return resampled_length(frames, from_rate_, to_rate_);
}

Result<Resampler> Resampler::make(int32_t from_rate, int32_t to_rate, ResampleQuality quality) {
  OVERLORD_CHECK(from_rate > 0 && to_rate > 0, "a sample rate of nothing");
  Resampler made;
  made.from_rate_ = from_rate;
  made.to_rate_ = to_rate;
  const int64_t common = std::gcd(from_rate, to_rate);
  const int64_t up = made.up_ = to_rate / common;
  const int64_t down = made.down_ = from_rate / common;
  if (up == down) return made;
  const FilterShape shape = shape_of(quality);
  // Distances are counted in 1 / up of an input sample. A zero crossing is every `wide / pass`.
  const int64_t wide = std::max(up, down);
  const int64_t reach = shape.crossings * wide * 1000 / shape.pass_permille;
  const int64_t side = reach / up + 1;
  made.before_ = side - 1;
  made.taps_ = (2 * side + kStep - 1) / kStep * kStep;
  if (up > kMostTableValues / made.taps_) {
    return invalid_argument("sound at " + std::to_string(from_rate) +
                            " Hz cannot be resampled to " + std::to_string(to_rate) +
                            " Hz: the ratio " + std::to_string(up) + "/" + std::to_string(down) +
                            " needs a filter table of more than 4 MiB");
  }
  made.table_.assign(static_cast<size_t>(up * made.taps_), 0.0F);
  const KaiserWindow window(shape.beta);
  std::vector<double> phase_taps(static_cast<size_t>(2 * side));
  for (int64_t phase = 0; phase < up; ++phase) {
    double sum = 0;
    for (int64_t tap = 0; tap < 2 * side; ++tap) {
      const int64_t distance = (tap - made.before_) * up - phase;
      double value = 0;
      if (std::abs(distance) < reach) {
        const double part = static_cast<double>(distance) / static_cast<double>(reach);
        value = window.at(part);
        const int64_t per = 2 * 1000 * wide;  // in turns: pi x is x / 2 turns
        if (distance != 0) {
          const double x = kPi * static_cast<double>(distance * shape.pass_permille) /
                           static_cast<double>(1000 * wide);
          value *= sin_of_turn(distance * shape.pass_permille, per) / x;
        }
      }
      phase_taps[static_cast<size_t>(tap)] = value;
      sum += value;
    }
    // A steady level stays what it is, at every phase.
    float* const row = made.table_.data() + phase * made.taps_;
    for (int64_t tap = 0; tap < 2 * side; ++tap) {
      row[tap] = static_cast<float>(phase_taps[static_cast<size_t>(tap)] / sum);
    }
  }
  return made;
}

void Resampler::run(const float* in, int64_t frames, std::vector<float>& padded, float* out) const {
  if (up_ == down_) {
    std::memcpy(out, in, static_cast<size_t>(frames) * sizeof(float));
    return;
  }
  // Silence on both sides, so that no tap needs to ask where it is.
  const auto wanted = static_cast<size_t>(before_ + frames + taps_);
  if (padded.size() < wanted) padded.resize(wanted);
  std::fill_n(padded.data(), before_, 0.0F);
  std::memcpy(padded.data() + before_, in, static_cast<size_t>(frames) * sizeof(float));
  std::fill_n(padded.data() + before_ + frames, taps_, 0.0F);
  const int64_t count = length(frames);
  int64_t at = 0;
  int64_t phase = 0;
  const int64_t whole = down_ / up_;
  const int64_t part = down_ % up_;
  for (int64_t i = 0; i < count; ++i) {
    out[i] = dot(padded.data() + at, table_.data() + phase * taps_, taps_);
    at += whole;
    phase += part;
    if (phase >= up_) {
      phase -= up_;
      ++at;
    }
  }
}

}  // namespace overlord::media
