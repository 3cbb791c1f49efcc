// Change of sample rate by a polyphase windowed-sinc filter. Rates are whole numbers, so the filter
// has up / gcd phases, tabulated when it is prepared; the tables and every sum are in a fixed order
// without fused operations, so the same samples come out on every CPU. Beyond the ends the sound is
// silent. The answer has ceil(frames * to / from) samples, the first at the time of the first.
#pragma once

#include <cstdint>
#include <vector>

#include "overlord/base/status.h"

namespace overlord::media {

// Zero crossings of the sinc on each side under a Kaiser window. What lies below the named share of
// the lower rate's half passes unchanged, what lies 6 % above that half is gone.
//   fast: 8 crossings, 60 dB, 65 %; standard: 16, 90 dB, 74 %; high: 32, 118 dB, 83 %.
enum class ResampleQuality : uint8_t { kFast, kStandard, kHigh };

class Resampler {
 public:
  // Refuses rates whose ratio would need a table of more than 4 MiB.
  static Result<Resampler> make(int32_t from_rate, int32_t to_rate, ResampleQuality quality);

  int32_t from_rate() const { return from_rate_; }
  int32_t to_rate() const { return to_rate_; }
  // How many samples come out of so many.
  int64_t length(int64_t frames) const;

  // `out` has length(frames) places. `padded` is memory kept between calls.
  void run(const float* in, int64_t frames, std::vector<float>& padded, float* out) const;

 private:
  int32_t from_rate_ = 1;
  int32_t to_rate_ = 1;
  int64_t up_ = 1;  // phases
  int64_t down_ = 1;
  int64_t taps_ = 0;          // of a phase, a multiple of 8
  int64_t before_ = 0;        // taps before the sample at or before the wanted time
  std::vector<float> table_;  // phase by phase
};

// frames * to / from, rounded up, without making the filter.
int64_t resampled_length(int64_t frames, int32_t from_rate, int32_t to_rate);

}  // namespace overlord::media
