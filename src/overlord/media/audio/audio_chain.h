// A declared list of steps from encoded bytes to samples or log-mel spectrograms. The chain is a
// value with one text form, which configs, job specs and digests use; prepared, it is a pure
// function of (bytes, key). What comes out has a geometry that the header alone tells: plan by it,
// allocate by it, and the decoder keeps to it or answers with a Status.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/media/audio/audio_decode.h"
#include "overlord/media/audio/audio_header.h"
#include "overlord/media/audio/log_mel.h"
#include "overlord/media/audio/resample.h"
#include "overlord/media/prepared_steps.h"

namespace overlord::media {

// --- Steps -------------------------------------------------------------------------------------
struct MonoStep {  // the mean of the channels
  friend bool operator==(const MonoStep&, const MonoStep&) = default;
};
struct ResampleStep {
  int32_t rate = LogMel::kRate;
  ResampleQuality quality = ResampleQuality::kStandard;
  friend bool operator==(const ResampleStep&, const ResampleStep&) = default;
  OVERLORD_FIELDS(rate, quality)
};
struct FitStep {  // cut at the end, or silence added, to exactly so many samples
  int64_t samples = 0;
  friend bool operator==(const FitStep&, const FitStep&) = default;
  OVERLORD_FIELDS(samples)
};
struct RandomCutStep {  // so many samples from a place that the key decides; silence added if short
  int64_t samples = 0;
  friend bool operator==(const RandomCutStep&, const RandomCutStep&) = default;
  OVERLORD_FIELDS(samples)
};
enum class LastChunk : uint8_t { kPad, kDrop };
struct ChunkStep {  // windows of so many samples, one every `hop`
  int64_t samples = 0;
  int64_t hop = 0;  // 0: as `samples`
  LastChunk last = LastChunk::kPad;
  friend bool operator==(const ChunkStep&, const ChunkStep&) = default;
  OVERLORD_FIELDS(samples, hop, last)
};
struct Pcm16Step {  // samples leave as int16 instead of float32
  friend bool operator==(const Pcm16Step&, const Pcm16Step&) = default;
};
// How many tokens a model makes of the frames of a chunk.
//   frames: one each; whisper: half of them, padding included; qwen2_audio: a quarter of the real.
enum class AudioTokens : uint8_t { kFrames, kWhisper, kQwen2Audio };
struct LogMelStep {
  int32_t mels = 80;
  AudioTokens tokens = AudioTokens::kWhisper;
  friend bool operator==(const LogMelStep&, const LogMelStep&) = default;
  OVERLORD_FIELDS(mels, tokens)
};

using AudioStep =
    std::variant<MonoStep, ResampleStep, FitStep, RandomCutStep, ChunkStep, Pcm16Step, LogMelStep>;

std::string_view step_name(const AudioStep& step);  // as in the text form

struct AudioChain {
  AudioLimits limits;
  std::vector<AudioStep> steps;

  friend bool operator==(const AudioChain&, const AudioChain&) = default;
};

// The text form: steps separated by ';', each a name and key=value pairs, for example
//   "decode max_seconds=60; mono; resample rate=16000; fit samples=480000; log_mel mels=80".
// chain_text names every value; parse_audio_chain(chain_text(c)) == c.
std::string chain_text(const AudioChain& chain);
Result<AudioChain> parse_audio_chain(std::string_view text);

// --- Geometry ----------------------------------------------------------------------------------
struct AudioGeometry {
  int32_t sample_rate = 0;
  int32_t channels = 0;
  bool chunked = false;  // a chunk step was there: the outcome has a dimension for it
  int64_t chunks = 1;
  int64_t samples = 0;       // of a chunk and channel
  int64_t real_samples = 0;  // of a channel, over all chunks; the rest is added silence
  int32_t mels = 0;          // 0 without log_mel; so are the next three
  int64_t frames = 0;        // of a chunk
  int64_t real_frames = 0;   // over all chunks
  int64_t tokens = 0;        // over all chunks
  bool floats = true;        // float32, else int16

  friend bool operator==(const AudioGeometry&, const AudioGeometry&) = default;
  int64_t values() const { return chunks * (mels > 0 ? mels * frames : samples * channels); }
  size_t bytes() const { return static_cast<size_t>(values()) * (floats ? 4 : 2); }
};

// --- The prepared chain ------------------------------------------------------------------------
// Memory that a chain keeps between sounds. One per thread.
// A part of a sound in milliseconds; an end of 0: where it ends.
struct SoundSpan {
  int64_t start = 0;
  int64_t end = 0;

  friend bool operator==(const SoundSpan&, const SoundSpan&) = default;
};

struct SampleRun {
  int64_t first = 0;
  int64_t count = 0;
};
// kBadData: none of the sound's samples lies in the part.
Result<SampleRun> samples_of(const AudioHeader& header, SoundSpan part);

struct AudioScratch {
  AudioDecodeScratch decode;
  Sound decoded;
  Sound part;
  Sound resampled;
  std::vector<float> padded;
  std::vector<float> window;
  // Filters by rates and quality, the latest used first; few.
  struct KeptFilter {
    ResampleQuality quality;
    std::shared_ptr<const Resampler> filter;
  };
  std::vector<KeptFilter> filters;
};

class PreparedAudioChain : public PreparedSteps<AudioChain, AudioHeader, AudioGeometry> {
 public:
  // Refuses steps that cannot follow each other or have senseless values.
  static Result<PreparedAudioChain> prepare(AudioChain chain);

  // Geometry of the outcome; equal to what run() delivers for any key. Of a part it is that of a
  // sound which has these samples alone; it ends with the sound where that ends sooner.
  Result<AudioGeometry> planned_size(const AudioHeader& header, SoundSpan part = {}) const;

  // Decodes and transforms into `out`, which must be planned_size(header).bytes() long. Samples are
  // chunk by chunk, channels interleaved; spectrograms chunk by chunk, mel by mel. `header` is what
  // probe_audio says of `bytes`; `key` (of the sample) decides all chance.
  Status run(std::string_view bytes, const AudioHeader& header, uint64_t key, AudioScratch& scratch,
             std::span<uint8_t> out, SoundSpan part = {}) const;

  // Probe, plan, allocate, run.
  Result<Outcome> run(std::string_view bytes, uint64_t key, AudioScratch& scratch) const;

 private:
  Result<const Sound*> sound_of(std::string_view bytes, const AudioHeader& header, SoundSpan part,
                                AudioScratch& scratch) const;
  void write_chunk(const Sound& sound, int64_t start, const AudioGeometry& geometry,
                   AudioScratch& scratch, uint8_t* out) const;

  std::shared_ptr<const LogMel> log_mel_;  // where the chain has the step
};

}  // namespace overlord::media
