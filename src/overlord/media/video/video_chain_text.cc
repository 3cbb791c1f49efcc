// The text form of video chains, which have rates beside what chains of pictures have.
#include <string>

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

}  // namespace

std::string chain_text(const VideoChain& chain) { return print_chain<VideoPrinter>(chain); }

Result<VideoChain> parse_video_chain(std::string_view text) {
  return parse_steps<VideoChain, VideoParser>("video chain", text);
}

}  // namespace overlord::media
