// Sounds as a kind of media: sample rate, channels and length are what the index keeps of one.
#include <optional>
#include <string>
#include <vector>

#include "overlord/media/audio/audio_chain.h"
#include "overlord/media/audio/audio_head.h"
#include "overlord/media/kind_field.h"

namespace overlord::media {
namespace {

// The steps that decide how the outcome lies in rows.
struct ChainEnd {
  bool mono = false;
  bool resampled = false;
  std::optional<int64_t> samples;  // of a part, where all parts are of one length
  int32_t mels = 0;
  bool floats = true;

  void operator()(const MonoStep&) { mono = true; }
  void operator()(const ResampleStep&) { resampled = true; }
  void operator()(const FitStep& step) { samples = step.samples; }
  void operator()(const RandomCutStep& step) { samples = step.samples; }
  void operator()(const ChunkStep& step) { samples = step.samples; }
  void operator()(const Pcm16Step&) { floats = false; }
  void operator()(const LogMelStep& step) { mels = step.mels; }
};

// A row is a part where all are of one length: a spectrogram as models take it, or its samples.
// Else it is what there is any number of: a frame of the spectrogram, or a sample.
Result<FieldRows> sound_rows(const AudioChain& chain) {
  ChainEnd end;
  for (const AudioStep& step : chain.steps) std::visit(end, step);
  if (end.mels == 0 && !(end.mono && end.resampled)) {
    return invalid_argument(
        std::string("audio chain: sounds leave it with different ") +
        (end.mono ? "sample rates" : "numbers of channels") +
        " and would not fit one array; put mono and resample into it, or end it with log_mel");
  }
  FieldRows rows;
  rows.element = end.floats ? model::Element::kF32 : model::Element::kI16;
  rows.has_units = true;
  rows.tells_tokens = end.mels > 0;
  if (end.mels > 0) rows.shape.push_back(static_cast<uint32_t>(end.mels));
  if (end.samples) {
    const int64_t length = end.mels > 0 ? LogMel::frames(*end.samples) : *end.samples;
    if (length == 0) {
      return invalid_argument("audio chain: " + std::to_string(*end.samples) +
                              " samples are too short for a spectrogram, one frame takes " +
                              std::to_string(LogMel::kHop));
    }
    rows.shape.push_back(static_cast<uint32_t>(length));
  }
  return rows;
}

// Whether a row is a frame of a spectrogram, which has any number of them.
bool frame_rows(const FieldRows& rows) { return rows.tells_tokens && rows.shape.size() == 1; }

struct Sounds {
  using Header = AudioHeader;
  using Prepared = PreparedAudioChain;
  using Scratch = AudioScratch;
  using Part = SoundSpan;
  static constexpr std::string_view kBlob = "sound";

  static auto parse(std::string_view text) { return parse_audio_chain(text); }
  static auto rows_of(const AudioChain& chain) { return sound_rows(chain); }
  static const AudioLimits& limits(const AudioChain& chain) { return chain.limits; }
  static auto probe(std::string_view blob, const AudioLimits&) { return probe_audio(blob); }

  static Result<HeaderValues> values_of(const AudioHeader& header) {
    const auto frames = static_cast<uint64_t>(header.frames);
    return HeaderValues{static_cast<uint32_t>(header.sample_rate),
                        static_cast<uint32_t>(header.channels), static_cast<uint32_t>(frames),
                        static_cast<uint32_t>(frames >> 32)};
  }
  static AudioHeader header_of(const HeaderValues& values) {
    AudioHeader header;
    header.sample_rate = static_cast<int32_t>(values[0]);
    header.channels = static_cast<int32_t>(values[1]);
    header.frames = static_cast<int64_t>(uint64_t{values[3]} << 32 | values[2]);
    return header;
  }
  static std::string header_text(const HeaderValues& values) {
    const AudioHeader header = header_of(values);
    return std::to_string(header.frames) + " samples of " + std::to_string(header.channels) +
           (header.channels == 1 ? " channel at " : " channels at ") +
           std::to_string(header.sample_rate) + " Hz";
  }
  static FieldPlan plan_of(const AudioGeometry& geometry, const FieldRows& rows) {
    const bool part_rows = rows.shape.size() == (rows.tells_tokens ? 2 : 1);
    FieldPlan plan;
    plan.parts = geometry.chunks;
    plan.part_units = geometry.mels > 0 ? geometry.frames : geometry.samples;
    plan.units = geometry.mels > 0 ? geometry.real_frames : geometry.real_samples;
    plan.tokens = geometry.tokens;
    plan.size_bytes = geometry.bytes();
    plan.shape.rows = static_cast<uint32_t>(part_rows ? plan.parts : plan.part_units);
    plan.shape.t = static_cast<uint32_t>(plan.parts);
    plan.shape.h = static_cast<uint32_t>(plan.part_units);
    plan.shape.w = static_cast<uint32_t>(plan.units);
    return plan;
  }
};

class AudioField final : public KindField<Sounds> {
 public:
  using KindField::KindField;

 private:
  // A chain gives spectrograms mel by mel.
  Status fill(std::string_view blob, const AudioHeader& header, const HeaderValues& promised,
              uint64_t key, std::span<uint8_t> out) const override {
    if (!frame_rows(rows())) return KindField::fill(blob, header, promised, key, out);
    thread_local std::vector<float> by_mel;
    by_mel.resize(out.size() / sizeof(float));
    OVERLORD_RETURN_IF_ERROR(KindField::fill(
        blob, header, promised, key, {reinterpret_cast<uint8_t*>(by_mel.data()), out.size()}));
    by_frame(by_mel, reinterpret_cast<float*>(out.data()));
    return {};
  }

  void by_frame(const std::vector<float>& by_mel, float* out) const {
    const size_t mels = rows().shape[0];
    const size_t frames = by_mel.size() / mels;
    for (size_t mel = 0; mel < mels; ++mel) {
      const float* const from = by_mel.data() + mel * frames;
      for (size_t frame = 0; frame < frames; ++frame) out[frame * mels + mel] = from[frame];
    }
  }
};

Result<HeaderValues> probe(const BlobHead& blob) {
  OVERLORD_TRY(const AudioHeader header, probe_audio_head(blob));
  return Sounds::values_of(header);
}

}  // namespace

const KindOfMedia& audio_kind() {
  static constexpr KindOfMedia kKind = {
      model::MediaKind::kAudio, "audio", "sound headers 2",        64 << 10, 4,
      audio_probe_need,         probe,   prepare_field<AudioField>};
  return kKind;
}

}  // namespace overlord::media
