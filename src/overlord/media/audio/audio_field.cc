// Sounds as a kind of media: sample rate, channels and length are what the index keeps of one.
#include <cstring>
#include <optional>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/media/audio/audio_chain.h"
#include "overlord/media/audio/audio_head.h"
#include "overlord/media/field_chain.h"

namespace overlord::media {
namespace {

HeaderValues values_of(const AudioHeader& header) {
  const auto frames = static_cast<uint64_t>(header.frames);
  return {static_cast<uint32_t>(header.sample_rate), static_cast<uint32_t>(header.channels),
          static_cast<uint32_t>(frames), static_cast<uint32_t>(frames >> 32)};
}

AudioHeader header_of(const HeaderValues& values) {
  AudioHeader header;
  header.sample_rate = static_cast<int32_t>(values[0]);
  header.channels = static_cast<int32_t>(values[1]);
  header.frames = static_cast<int64_t>(uint64_t{values[3]} << 32 | values[2]);
  return header;
}

std::string header_text(const HeaderValues& values) {
  const AudioHeader header = header_of(values);
  return std::to_string(header.frames) + " samples of " + std::to_string(header.channels) +
         (header.channels == 1 ? " channel at " : " channels at ") +
         std::to_string(header.sample_rate) + " Hz";
}

Result<HeaderValues> probe(const BlobHead& blob) {
  OVERLORD_TRY(const AudioHeader header, probe_audio_head(blob));
  return values_of(header);
}

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
Result<FieldRows> rows_of(const AudioChain& chain) {
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

class AudioField final : public FieldChain {
 public:
  AudioField(PreparedAudioChain chain, FieldRows rows)
      : chain_(std::move(chain)), rows_(std::move(rows)) {
    frame_rows_ = rows_.tells_tokens && rows_.shape.size() == 1;
    part_rows_ = rows_.shape.size() == (rows_.tells_tokens ? 2 : 1);
  }

  std::string text() const override { return chain_text(chain_.chain()); }
  const FieldRows& rows() const override { return rows_; }

  Result<FieldPlan> planned(const HeaderValues& header, uint64_t size_bytes) const override {
    const AudioHeader known = header_of(header);
    OVERLORD_RETURN_IF_ERROR(
        check_limits(known, static_cast<size_t>(size_bytes), chain_.chain().limits));
    OVERLORD_TRY(const AudioGeometry geometry, chain_.planned_size(known));
    FieldPlan plan;
    plan.parts = geometry.chunks;
    plan.part_units = geometry.mels > 0 ? geometry.frames : geometry.samples;
    plan.units = geometry.mels > 0 ? geometry.real_frames : geometry.real_samples;
    plan.tokens = geometry.tokens;
    plan.size_bytes = geometry.bytes();
    plan.shape.rows = static_cast<uint32_t>(part_rows_ ? plan.parts : plan.part_units);
    plan.shape.t = static_cast<uint32_t>(plan.parts);
    plan.shape.h = static_cast<uint32_t>(plan.part_units);
    plan.shape.w = static_cast<uint32_t>(plan.units);
    return plan;
  }

  Status run(std::string_view blob, const HeaderValues& promised, uint64_t key,
             std::span<uint8_t> out) const override {
    OVERLORD_TRY(const AudioHeader header, probe_audio(blob));
    const HeaderValues found = values_of(header);
    if (found != promised) {
      return bad_data("the index promises " + header_text(promised) + ", the sound has " +
                      header_text(found));
    }
    thread_local AudioScratch scratch;
    if (!frame_rows_) return chain_.run(blob, header, key, scratch, out);
    thread_local std::vector<float> by_mel;
    by_mel.resize(out.size() / sizeof(float));
    OVERLORD_RETURN_IF_ERROR(chain_.run(blob, header, key, scratch,
                                        {reinterpret_cast<uint8_t*>(by_mel.data()), out.size()}));
    by_frame(by_mel, reinterpret_cast<float*>(out.data()));
    return {};
  }

 private:
  void by_frame(const std::vector<float>& by_mel, float* out) const {
    const size_t mels = rows_.shape[0];
    const size_t frames = by_mel.size() / mels;
    for (size_t mel = 0; mel < mels; ++mel) {
      const float* const from = by_mel.data() + mel * frames;
      for (size_t frame = 0; frame < frames; ++frame) out[frame * mels + mel] = from[frame];
    }
  }

  PreparedAudioChain chain_;
  FieldRows rows_;
  bool frame_rows_ = false;
  bool part_rows_ = false;
};

Result<FieldChainPtr> prepare(std::string_view transform) {
  OVERLORD_TRY(AudioChain chain, parse_audio_chain(transform));
  OVERLORD_TRY(FieldRows rows, rows_of(chain));
  OVERLORD_TRY(PreparedAudioChain prepared, PreparedAudioChain::prepare(std::move(chain)));
  return FieldChainPtr(std::make_shared<const AudioField>(std::move(prepared), std::move(rows)));
}

}  // namespace

const KindOfMedia& audio_kind() {
  static constexpr KindOfMedia kKind = {model::MediaKind::kAudio,
                                        "audio",
                                        "sound headers 2",
                                        64 << 10,
                                        4,
                                        audio_probe_need,
                                        probe,
                                        prepare};
  return kKind;
}

}  // namespace overlord::media
