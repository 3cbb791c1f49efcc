#include "overlord/media/audio/audio_chain.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "overlord/base/rng.h"

namespace overlord::media {
namespace {

constexpr size_t kMostFilters = 8;
constexpr uint64_t kCutDraw = 0x61756469;  // what the draw of random_cut is for

// The filter for these rates, made once per thread and kept while it is among the latest.
Result<std::shared_ptr<const Resampler>> filter_for(int32_t from_rate, const ResampleStep& step,
                                                    AudioScratch& scratch) {
  auto& kept = scratch.filters;
  const auto found = std::find_if(kept.begin(), kept.end(), [&](const auto& one) {
    return one.quality == step.quality && one.filter->from_rate() == from_rate &&
           one.filter->to_rate() == step.rate;
  });
  if (found != kept.end()) {
    std::rotate(kept.begin(), found, found + 1);
    return kept.front().filter;
  }
  OVERLORD_TRY(Resampler made, Resampler::make(from_rate, step.rate, step.quality));
  if (kept.size() >= kMostFilters) kept.pop_back();
  kept.insert(kept.begin(), {step.quality, std::make_shared<const Resampler>(std::move(made))});
  return kept.front().filter;
}

// To the nearest step of 1 / 32768, halves up.
int16_t pcm16_of(float value) {
  const float scaled = std::clamp(value * 32768.0F, -32768.0F, 32767.0F) + 0.5F;
  const auto whole = static_cast<int32_t>(scaled);
  return static_cast<int16_t>(static_cast<float>(whole) > scaled ? whole - 1 : whole);
}

void put(float value, float* to) { *to = value; }
void put(float value, int16_t* to) { *to = pcm16_of(value); }

// `out` may lie at any address.
template <typename Value>
void interleave(const Sound& sound, int64_t start, int64_t samples, uint8_t* out) {
  const int64_t there = std::clamp<int64_t>(sound.frames - start, 0, samples);
  const int64_t channels = sound.channels;
  for (int64_t c = 0; c < channels; ++c) {
    const float* const from = sound.channel(static_cast<int32_t>(c)) + start;
    for (int64_t i = 0; i < there; ++i) {
      Value value;
      put(from[i], &value);
      std::memcpy(out + (i * channels + c) * static_cast<int64_t>(sizeof value), &value,
                  sizeof value);
    }
  }
  const auto written = static_cast<size_t>(there * channels) * sizeof(Value);
  const auto whole = static_cast<size_t>(samples * channels) * sizeof(Value);
  std::memset(out + written, 0, whole - written);
}

}  // namespace

Result<SampleRun> samples_of(const AudioHeader& header, SoundSpan part) {
  const auto sample_at = [&](int64_t milliseconds) {
    return std::min(milliseconds * header.sample_rate / 1000, header.frames);
  };
  const int64_t first = sample_at(part.start);
  const int64_t end = part.end == 0 ? header.frames : sample_at(part.end);
  if (first < end) return SampleRun{first, end - first};
  return bad_data("its part starts at " + std::to_string(part.start) + " ms, the sound has " +
                  std::to_string(header.milliseconds()) + " ms");
}

Result<const Sound*> PreparedAudioChain::sound_of(std::string_view bytes, const AudioHeader& header,
                                                  SoundSpan part, AudioScratch& scratch) const {
  OVERLORD_RETURN_IF_ERROR(decode_audio(bytes, header, chain_.limits, find<MonoStep>() != nullptr,
                                        scratch.decode, &scratch.decoded));
  const Sound* whole = &scratch.decoded;
  if (part != SoundSpan()) {
    OVERLORD_TRY(const SampleRun run, samples_of(header, part));
    scratch.part.shape(whole->channels, run.count);
    scratch.part.sample_rate = whole->sample_rate;
    for (int32_t c = 0; c < whole->channels; ++c) {
      std::copy_n(whole->channel(c) + run.first, run.count, scratch.part.channel(c));
    }
    whole = &scratch.part;
  }
  const auto* const step = find<ResampleStep>();
  if (step == nullptr || step->rate == header.sample_rate) return whole;
  OVERLORD_TRY(const auto filter, filter_for(header.sample_rate, *step, scratch));
  const Sound& from = *whole;
  scratch.resampled.shape(from.channels, filter->length(from.frames));
  scratch.resampled.sample_rate = step->rate;
  for (int32_t c = 0; c < from.channels; ++c) {
    filter->run(from.channel(c), from.frames, scratch.padded, scratch.resampled.channel(c));
  }
  return &scratch.resampled;
}

void PreparedAudioChain::write_chunk(const Sound& sound, int64_t start,
                                     const AudioGeometry& geometry, AudioScratch& scratch,
                                     uint8_t* out) const {
  if (log_mel_ == nullptr) {
    if (geometry.floats) return interleave<float>(sound, start, geometry.samples, out);
    return interleave<int16_t>(sound, start, geometry.samples, out);
  }
  const auto count = static_cast<size_t>(geometry.samples);
  const float* samples = sound.channel(0) + start;
  if (sound.frames - start < geometry.samples) {
    if (scratch.window.size() < count) scratch.window.resize(count);
    const auto there = static_cast<size_t>(std::max<int64_t>(sound.frames - start, 0));
    std::copy_n(samples, there, scratch.window.data());
    std::fill(scratch.window.data() + there, scratch.window.data() + count, 0.0F);
    samples = scratch.window.data();
  }
  log_mel_->run(samples, geometry.samples, scratch.padded, reinterpret_cast<float*>(out));
}

Status PreparedAudioChain::run(std::string_view bytes, const AudioHeader& header, uint64_t key,
                               AudioScratch& scratch, std::span<uint8_t> out,
                               SoundSpan part) const {
  OVERLORD_TRY(const AudioGeometry geometry, planned_size(header, part));
  OVERLORD_CHECK(out.size() == geometry.bytes(), "output of another size than planned");
  OVERLORD_CHECK(reinterpret_cast<uintptr_t>(out.data()) % alignof(float) == 0,
                 "output at an odd address");
  OVERLORD_TRY(const Sound* const sound, sound_of(bytes, header, part, scratch));
  int64_t start = 0;
  int64_t hop = geometry.samples;
  if (find<RandomCutStep>() != nullptr && sound->frames > geometry.samples) {
    const auto places = static_cast<uint64_t>(sound->frames - geometry.samples + 1);
    start = static_cast<int64_t>(uniform_below(key, kCutDraw, 0, places));
  }
  if (const auto* const chunk = find<ChunkStep>(); chunk != nullptr && chunk->hop > 0) {
    hop = chunk->hop;
  }
  const size_t chunk_bytes = geometry.bytes() / static_cast<size_t>(geometry.chunks);
  for (int64_t i = 0; i < geometry.chunks; ++i) {
    write_chunk(*sound, start + i * hop, geometry, scratch,
                out.data() + static_cast<size_t>(i) * chunk_bytes);
  }
  return {};
}

Result<PreparedAudioChain::Outcome> PreparedAudioChain::run(std::string_view bytes, uint64_t key,
                                                            AudioScratch& scratch) const {
  OVERLORD_TRY(const AudioHeader header, probe_audio(bytes));
  // Limits before the output is allocated: a header may promise anything.
  OVERLORD_RETURN_IF_ERROR(check_limits(header, bytes.size(), chain_.limits));
  OVERLORD_TRY(const AudioGeometry geometry, planned_size(header));
  Outcome outcome{header, geometry, std::vector<uint8_t>(geometry.bytes())};
  OVERLORD_RETURN_IF_ERROR(run(bytes, header, key, scratch, outcome.bytes));
  return outcome;
}

}  // namespace overlord::media
