// Log-mel spectrograms by Whisper's definition: 16 kHz, windows of 400 samples (periodic Hann)
// every 160, reflected at both ends, the power over Slaney's mel filters (area one each), log10,
// nothing lower than 8 below the highest value of the whole, then (x + 4) / 4. Four windows are
// transformed side by side, each by the same operations in the same order, with a logarithm of our
// own: the same bits on every CPU. Within 2e-4 of the definition in double precision.
#pragma once

#include <cstdint>
#include <vector>

namespace overlord::media {

class LogMel {
 public:
  static constexpr int32_t kRate = 16000;
  static constexpr int32_t kWindow = 400;
  static constexpr int32_t kHop = 160;
  static constexpr int32_t kBins = kWindow / 2 + 1;

  explicit LogMel(int32_t mels);  // 1 to kBins

  int32_t mels() const { return static_cast<int32_t>(filters_.size()); }
  static int64_t frames(int64_t samples) { return samples / kHop; }

  // `out` has mels() rows of frames(samples) values. `padded` is memory kept between calls.
  void run(const float* samples, int64_t count, std::vector<float>& padded, float* out) const;

  // One filter: weights of the bins from `first` on.
  struct Filter {
    int32_t first = 0;
    std::vector<float> weights;
  };
  const std::vector<Filter>& filters() const { return filters_; }

 private:
  std::vector<Filter> filters_;
};

}  // namespace overlord::media
