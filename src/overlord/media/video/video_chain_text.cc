// The fields of a video chain's steps, for its text form.
#include <string>
#include <type_traits>

#include "overlord/media/image/image_step_text.h"
#include "overlord/media/video/video_chain.h"

namespace overlord::media {
namespace {

class VideoPrinter : public ImagePrinter {
 public:
  using ImagePrinter::field;
  void field(std::string_view name, const FrameRate& rate) {
    add(name, std::to_string(rate.num) + (rate.den == 1 ? "" : "/" + std::to_string(rate.den)));
  }
};

class VideoParser : public ImageParser {
 public:
  using ImageParser::field;
  using ImageParser::ImageParser;
  void field(std::string_view name, FrameRate& rate) {
    std::string_view text;
    if (!take(name, &text)) return;
    const std::vector<std::string_view> parts = split_text(text, '/');
    rate.den = 1;
    bool good = parts.size() <= 2 && read_number(parts[0], &rate.num);
    if (good && parts.size() == 2) good = read_number(parts[1], &rate.den);
    if (!good) fail(name, "a whole number or a ratio, as 2, 1/2 or 30000/1001", text);
  }
};

template <typename Visitor, typename Step>
void describe(Visitor& v, Step& step) {
  using Plain = std::remove_const_t<Step>;
  if constexpr (std::is_same_v<Plain, VideoDecodeOptions>) {
    v.field("threads", step.threads);
    v.field("max_bytes", step.limits.bytes);
    v.field("max_pixels", step.limits.pixels);
    v.field("max_frames", step.limits.frames);
    v.field("max_seconds", step.limits.seconds);
    v.field("max_streams", step.limits.streams);
    v.field("max_work", step.limits.work);
  } else if constexpr (std::is_same_v<Plain, ClipStep>) {
    v.field("start", step.span.start);
    v.field("end", step.span.end);
  } else if constexpr (std::is_same_v<Plain, SampleStep>) {
    v.field("frames", step.choice.frames);
    v.field("fps", step.choice.fps);
    v.field("min", step.choice.min);
    v.field("max", step.choice.max);
    v.field("multiple_of", step.choice.multiple_of);
    v.field("at", step.choice.at);
  } else if constexpr (std::is_same_v<Plain, ResizeShortStep>) {
    v.field("side", step.side);
  } else if constexpr (std::is_same_v<Plain, ClipResizeStep>) {
    v.field("factor", step.factor);
    v.field("min_pixels", step.min_pixels);
    v.field("max_pixels", step.max_pixels);
    v.field("total_pixels", step.total_pixels);
  } else if constexpr (std::is_same_v<Plain, NormaliseStep>) {
    describe_normalise(v, step.rule);
  } else if constexpr (std::is_same_v<Plain, PatchifyStep>) {
    describe_patchify(v, step.rule);
  } else if constexpr (requires { step.size.width; }) {
    describe_size(v, step.size);
  }
  if constexpr (requires { step.filter; }) describe_filter(v, step.filter);
}

constexpr auto kDescribe = [](auto& visitor, auto& step) { describe(visitor, step); };

}  // namespace

std::string chain_text(const VideoChain& chain) {
  return print_steps<VideoPrinter>(chain.decode, chain.steps, kDescribe);
}

Result<VideoChain> parse_video_chain(std::string_view text) {
  VideoChain chain;
  OVERLORD_RETURN_IF_ERROR(
      parse_steps<VideoParser>("video chain", text, &chain.decode, &chain.steps, kDescribe));
  return chain;
}

}  // namespace overlord::media
