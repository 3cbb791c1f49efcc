// From encoded bytes to float32 samples, one plane per channel, in [-1, 1) for integers. Limits are
// checked against the header before anything is allocated, and what was decoded against the header:
// fewer samples than promised, and samples that are no numbers, are a Status.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "overlord/base/hash.h"
#include "overlord/base/status.h"
#include "overlord/media/audio/audio_header.h"

namespace overlord::media {

struct AudioLimits {
  int64_t bytes = int64_t{256} << 20;  // encoded
  int64_t frames = int64_t{1} << 28;   // samples per channel
  int32_t channels = 16;
  int64_t seconds = 4 * 3600;
  int64_t ratio = 2000;                     // decoded bytes per encoded byte, above ratio_floor
  int64_t ratio_floor = int64_t{16} << 20;  // decoded bytes that no ratio makes dangerous

  friend bool operator==(const AudioLimits&, const AudioLimits&) = default;
  OVERLORD_FIELDS(bytes, frames, channels, seconds, ratio, ratio_floor)
};

// Samples of one channel after the other.
struct Sound {
  int32_t channels = 0;
  int32_t sample_rate = 0;
  int64_t frames = 0;
  std::vector<float> samples;  // at least channels * frames; memory is kept when shaped anew

  void shape(int32_t new_channels, int64_t new_frames);
  float* channel(int32_t c) { return samples.data() + c * frames; }
  const float* channel(int32_t c) const { return samples.data() + c * frames; }
};

// Memory that decoding keeps between files. One per thread.
struct AudioDecodeScratch {
  std::vector<float> interleaved;
};

// Ok when a file of this header and this many encoded bytes may be decoded.
Status check_limits(const AudioHeader& header, size_t encoded_bytes, const AudioLimits& limits);

// `header` is what probe_audio said of `bytes`. With `mono` the mean of the channels is kept.
Status decode_audio(std::string_view bytes, const AudioHeader& header, const AudioLimits& limits,
                    bool mono, AudioDecodeScratch& scratch, Sound* out);

// For media::codecs(). The fingerprint is of what the library makes of kept lossless sounds; lossy
// ones are outside of it, since their decoders agree within a tolerance only (AudioHeader::exact).
std::string audio_library_version();  // "" where absent
Digest audio_fingerprint();

}  // namespace overlord::media
