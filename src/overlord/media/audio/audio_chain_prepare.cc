// Which steps may follow each other, with which values, how they are written, and what comes out of
// them.
#include <algorithm>
#include <string>
#include <utility>

#include "overlord/media/audio/audio_chain.h"
#include "overlord/media/chain_text.h"
#include "overlord/media/step_values.h"

namespace overlord::media {
namespace {

constexpr int64_t kMostSamples = int64_t{1} << 31;
constexpr int64_t kMostValues = int64_t{1} << 29;  // 2 GiB of floats

// Steps come in this order, one of each phase.
struct StepRule {
  std::string_view name;
  int phase;
};
// In the order of AudioStep's alternatives.
constexpr StepRule kRules[] = {{"mono", 0},  {"resample", 1}, {"fit", 2},    {"random_cut", 2},
                               {"chunk", 2}, {"pcm16", 3},    {"log_mel", 3}};
static_assert(std::size(kRules) == std::variant_size_v<AudioStep>);

template <typename Step>
Status check(const Step&) {
  return {};
}
Status check(const ResampleStep& step) { return within("rate", step.rate, 1, 1'000'000); }
Status check(const FitStep& step) { return within("samples", step.samples, 1, kMostSamples); }
Status check(const RandomCutStep& step) { return within("samples", step.samples, 1, kMostSamples); }
Status check(const ChunkStep& step) {
  OVERLORD_RETURN_IF_ERROR(within("samples", step.samples, 1, kMostSamples));
  return within("hop", step.hop, 0, kMostSamples);
}
Status check(const LogMelStep& step) { return within("mels", step.mels, 1, 128); }

Status check_order(const AudioChain& chain) {
  int phase = -1;
  std::string before;
  for (const AudioStep& step : chain.steps) {
    const StepRule& rule = kRules[step.index()];
    if (rule.phase <= phase) {
      return invalid_argument("audio chain: " + std::string(rule.name) + " cannot follow " +
                              before +
                              "; the order is mono, resample, one of fit, random_cut and chunk, "
                              "then pcm16 or log_mel");
    }
    phase = rule.phase;
    before = rule.name;
    const Status status = std::visit([](const auto& one) { return check(one); }, step);
    if (!status.ok()) return status.with_context("audio chain: " + before);
  }
  return {};
}

Status check_limit_values(const AudioLimits& limits) {
  OVERLORD_RETURN_IF_ERROR(within("max_bytes", limits.bytes, 1, int64_t{1} << 40));
  OVERLORD_RETURN_IF_ERROR(within("max_frames", limits.frames, 1, kMostSamples));
  OVERLORD_RETURN_IF_ERROR(within("max_channels", limits.channels, 1, 1024));
  OVERLORD_RETURN_IF_ERROR(within("max_seconds", limits.seconds, 1, int64_t{1} << 31));
  OVERLORD_RETURN_IF_ERROR(within("max_ratio", limits.ratio, 1, int64_t{1} << 40));
  return within("ratio_floor", limits.ratio_floor, 0, int64_t{1} << 40);
}

Result<int64_t> chunks_of(const ChunkStep& step, int64_t samples) {
  const int64_t hop = step.hop == 0 ? step.samples : step.hop;
  if (samples >= step.samples) {
    const int64_t further = samples - step.samples;
    return 1 + (step.last == LastChunk::kPad ? (further + hop - 1) / hop : further / hop);
  }
  if (step.last == LastChunk::kPad) return int64_t{1};
  return bad_data("sound has " + std::to_string(samples) + " samples, less than one chunk of " +
                  std::to_string(step.samples) + ", and chunk last=drop leaves nothing of it");
}

// Frames and tokens, once chunks and samples are known. Chunk `i` starts at i * hop.
void count_frames(const LogMelStep& step, int64_t hop, AudioGeometry* geometry) {
  geometry->mels = step.mels;
  geometry->frames = LogMel::frames(geometry->samples);
  const int64_t halves = (geometry->frames + 1) / 2;
  for (int64_t i = 0; i < geometry->chunks; ++i) {
    const int64_t left =
        std::clamp<int64_t>(geometry->real_samples - i * hop, 0, geometry->samples);
    const int64_t real = std::min((left + LogMel::kHop - 1) / LogMel::kHop, geometry->frames);
    geometry->real_frames += real;
    switch (step.tokens) {
      case AudioTokens::kFrames:
        geometry->tokens += geometry->frames;
        break;
      case AudioTokens::kWhisper:
        geometry->tokens += halves;
        break;
      case AudioTokens::kQwen2Audio:
        geometry->tokens += (real + 1) / 2 / 2;
        break;
    }
  }
}

Status check_log_mel(const AudioGeometry& geometry) {
  if (geometry.channels != 1) {
    return bad_data("log_mel takes one channel, the sound has " +
                    std::to_string(geometry.channels) + "; put mono first in the chain");
  }
  if (geometry.sample_rate != LogMel::kRate) {
    return bad_data("log_mel takes 16000 Hz, the sound has " +
                    std::to_string(geometry.sample_rate) +
                    " Hz; put resample rate=16000 before it");
  }
  if (geometry.samples < LogMel::kHop) {
    return bad_data("sound is too short for a spectrogram: " + std::to_string(geometry.samples) +
                    " samples at 16000 Hz, one frame takes " + std::to_string(LogMel::kHop));
  }
  return {};
}

Status too_much(std::string_view what, int64_t found) {
  return bad_data("sound refused before decoding: " + std::string(what) + " would be " +
                  std::to_string(found) + ", more than " + std::to_string(kMostValues));
}

}  // namespace

std::string_view step_name(const AudioStep& step) { return kRules[step.index()].name; }

std::string chain_text(const AudioChain& chain) { return print_chain<ChainPrinter>(chain); }

Result<AudioChain> parse_audio_chain(std::string_view text) {
  return parse_steps<AudioChain, ChainParser>("audio chain", text);
}

Result<PreparedAudioChain> PreparedAudioChain::prepare(AudioChain chain) {
  OVERLORD_RETURN_IF_ERROR(check_order(chain));
  const Status limits = check_limit_values(chain.limits);
  if (!limits.ok()) return limits.with_context("audio chain: decode");
  PreparedAudioChain prepared;
  prepared.chain_ = std::move(chain);
  if (const auto* const step = prepared.find<LogMelStep>()) {
    const auto* const resample = prepared.find<ResampleStep>();
    if (resample != nullptr && resample->rate != LogMel::kRate) {
      return invalid_argument("audio chain: log_mel takes 16000 Hz; resample gives rate=" +
                              std::to_string(resample->rate));
    }
    prepared.log_mel_ = std::make_shared<const LogMel>(step->mels);
  }
  return prepared;
}

Result<AudioGeometry> PreparedAudioChain::planned_size(const AudioHeader& stored,
                                                       SoundSpan part) const {
  if (stored.frames == 0) return bad_data("sound has no samples");
  OVERLORD_TRY(const SampleRun run, samples_of(stored, part));
  AudioHeader header = stored;
  header.frames = run.count;
  AudioGeometry geometry;
  geometry.channels = find<MonoStep>() != nullptr ? 1 : header.channels;
  geometry.sample_rate = header.sample_rate;
  geometry.samples = header.frames;
  if (const auto* const step = find<ResampleStep>()) {
    geometry.samples = resampled_length(header.frames, header.sample_rate, step->rate);
    geometry.sample_rate = step->rate;
  }
  if (geometry.samples > kMostValues / geometry.channels) {
    return too_much("number of samples after resampling", geometry.samples);
  }
  geometry.real_samples = geometry.samples;
  int64_t hop = geometry.samples;
  if (const auto* const fit = find<FitStep>()) geometry.samples = fit->samples;
  if (const auto* const cut = find<RandomCutStep>()) geometry.samples = cut->samples;
  if (const auto* const chunk = find<ChunkStep>()) {
    OVERLORD_TRY(geometry.chunks, chunks_of(*chunk, geometry.samples));
    geometry.samples = chunk->samples;
    geometry.chunked = true;
    hop = chunk->hop == 0 ? chunk->samples : chunk->hop;
  }
  // Overlapping chunks hold a sample more than once; it counts once.
  geometry.real_samples =
      std::min(geometry.real_samples, (geometry.chunks - 1) * hop + geometry.samples);
  if (geometry.chunks > kMostValues / (geometry.samples * geometry.channels)) {
    return too_much("number of samples in all chunks",
                    geometry.chunks * geometry.samples * geometry.channels);
  }
  geometry.floats = find<Pcm16Step>() == nullptr;
  if (const auto* const step = find<LogMelStep>()) {
    OVERLORD_RETURN_IF_ERROR(check_log_mel(geometry));
    count_frames(*step, hop, &geometry);
  }
  return geometry;
}

}  // namespace overlord::media
