// The fields of an audio chain's steps, for its text form.
#include <type_traits>

#include "overlord/media/audio/audio_chain.h"
#include "overlord/media/chain_text.h"

namespace overlord::media {
namespace {

template <typename Visitor, typename Step>
void describe(Visitor& v, Step& step) {
  using Plain = std::remove_const_t<Step>;
  if constexpr (std::is_same_v<Plain, AudioLimits>) {
    v.field("max_bytes", step.bytes);
    v.field("max_frames", step.frames);
    v.field("max_channels", step.channels);
    v.field("max_seconds", step.seconds);
    v.field("max_ratio", step.ratio);
    v.field("ratio_floor", step.ratio_floor);
  } else if constexpr (std::is_same_v<Plain, ResampleStep>) {
    v.field("rate", step.rate);
    v.field("quality", step.quality);
  } else if constexpr (std::is_same_v<Plain, LogMelStep>) {
    v.field("mels", step.mels);
    v.field("tokens", step.tokens);
  } else if constexpr (requires { step.samples; }) {
    v.field("samples", step.samples);
    if constexpr (std::is_same_v<Plain, ChunkStep>) {
      v.field("hop", step.hop);
      v.field("last", step.last);
    }
  }
}

constexpr auto kDescribe = [](auto& visitor, auto& step) { describe(visitor, step); };

}  // namespace

std::string chain_text(const AudioChain& chain) {
  return print_steps<ChainPrinter>(chain.limits, chain.steps, kDescribe);
}

Result<AudioChain> parse_audio_chain(std::string_view text) {
  AudioChain chain;
  OVERLORD_RETURN_IF_ERROR(
      parse_steps<ChainParser>("audio chain", text, &chain.limits, &chain.steps, kDescribe));
  return chain;
}

}  // namespace overlord::media
