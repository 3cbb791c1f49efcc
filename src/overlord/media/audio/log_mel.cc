#include "overlord/media/audio/log_mel.h"

#include <algorithm>
#include <cstring>

#include "overlord/base/check.h"
#include "overlord/media/audio/fft_400.h"
#include "overlord/media/fixed_math.h"

namespace overlord::media {
namespace {

using Ints4 = int32_t __attribute__((vector_size(16)));
static_assert(LogMel::kWindow == kFftSize && LogMel::kBins == kFftBins);

constexpr float kFloor = 1e-10F;
constexpr int64_t kPad = LogMel::kWindow / 2;

// Slaney's scale: linear below 1 kHz, logarithmic above.
constexpr double kLinearHz = 200.0 / 3;  // to a mel
constexpr double kBreakHz = 1000;
constexpr double kBreakMel = 15;
double log_step() { return fixed_log(6.4) / 27; }
double mel_of(double hz) {
  return hz < kBreakHz ? hz / kLinearHz : kBreakMel + fixed_log(hz / kBreakHz) / log_step();
}
double hz_of(double mel) {
  return mel < kBreakMel ? mel * kLinearHz : kBreakHz * fixed_exp(log_step() * (mel - kBreakMel));
}

// Common logarithm of positive, normal numbers: exponent and mantissa are parted by their bits, and
// the mantissa's logarithm is a series in (m - 1) / (m + 1), |.| <= 0.172.
inline Floats4 log10_of(Floats4 x) {
  constexpr float kLog10Of2 = 0.30102999566398120F;
  constexpr float kTwiceLog10OfE = 0.86858896380650365F;
  constexpr int32_t kRootHalf = 0x3F3504F3;  // sqrt(1/2)
  Ints4 bits;
  std::memcpy(&bits, &x, sizeof bits);
  const Ints4 above = bits - kRootHalf;
  const Ints4 exponent = above >> 23;
  const Ints4 mantissa_bits = (above & 0x007FFFFF) + kRootHalf;
  Floats4 m;
  std::memcpy(&m, &mantissa_bits, sizeof m);
  const Floats4 t = (m - 1.0F) / (m + 1.0F);
  const Floats4 s = t * t;
  const Floats4 series = 1.0F + s * (1.0F / 3 + s * (1.0F / 5 + s * (1.0F / 7 + s * (1.0F / 9))));
  return __builtin_convertvector(exponent, Floats4) * kLog10Of2 + kTwiceLog10OfE * (t * series);
}

// Sample `at` of a sound that is mirrored at its first and last sample, over and over.
int64_t mirrored(int64_t at, int64_t count) {
  if (count == 1) return 0;
  const int64_t period = 2 * (count - 1);
  at %= period;
  if (at < 0) at += period;
  return at < count ? at : period - at;
}

}  // namespace

LogMel::LogMel(int32_t mels) {
  OVERLORD_CHECK(mels >= 1 && mels <= kBins, "mel filters");
  const double highest = mel_of(kRate / 2.0);
  const auto edge = [&](int32_t i) { return hz_of(highest * i / (mels + 1)); };
  for (int32_t m = 0; m < mels; ++m) {
    const double low = edge(m);
    const double centre = edge(m + 1);
    const double high = m + 2 == mels + 1 ? kRate / 2.0 : edge(m + 2);
    Filter filter;
    for (int32_t bin = 0; bin < kBins; ++bin) {
      const double hz = static_cast<double>(bin) * kRate / kWindow;
      const double weight =
          std::min((hz - low) / (centre - low), (high - hz) / (high - centre)) * 2 / (high - low);
      if (weight <= 0) continue;
      if (filter.weights.empty()) filter.first = bin;
      filter.weights.push_back(static_cast<float>(weight));
    }
    filters_.push_back(std::move(filter));
  }
}

void LogMel::run(const float* samples, int64_t count, std::vector<float>& padded,
                 float* out) const {
  const int64_t frames = LogMel::frames(count);
  if (frames == 0) return;
  const auto wanted = static_cast<size_t>(count + 2 * kPad);
  if (padded.size() < wanted) padded.resize(wanted);
  for (int64_t i = 0; i < kPad; ++i) {
    padded[static_cast<size_t>(i)] = samples[mirrored(i - kPad, count)];
    padded[static_cast<size_t>(kPad + count + i)] = samples[mirrored(count + i, count)];
  }
  std::memcpy(padded.data() + kPad, samples, static_cast<size_t>(count) * sizeof(float));

  Floats4 highest = Floats4{} - 10.0F;
  Floats4 power[kFftBins];
  for (int64_t frame = 0; frame < frames; frame += 4) {
    const float* starts[4];
    for (int64_t lane = 0; lane < 4; ++lane) {
      starts[lane] = padded.data() + std::min(frame + lane, frames - 1) * kHop;
    }
    power_of_four(starts, power);
    const auto taken = static_cast<size_t>(std::min<int64_t>(4, frames - frame));
    for (size_t m = 0; m < filters_.size(); ++m) {
      const Filter& filter = filters_[m];
      const Floats4* const bins = power + filter.first;
      Floats4 sum = {};
      for (size_t k = 0; k < filter.weights.size(); ++k) sum += bins[k] * filter.weights[k];
      const Floats4 floor = Floats4{} + kFloor;
      const Floats4 value = log10_of(sum > floor ? sum : floor);
      highest = value > highest ? value : highest;
      std::memcpy(out + static_cast<int64_t>(m) * frames + frame, &value, taken * sizeof(float));
    }
  }
  const float most = std::max(std::max(highest[0], highest[1]), std::max(highest[2], highest[3]));
  const float least = most - 8.0F;
  const int64_t values = frames * mels();
  for (int64_t i = 0; i < values; ++i) {
    const float value = out[i] < least ? least : out[i];
    out[i] = (value + 4.0F) * 0.25F;
  }
}

}  // namespace overlord::media
