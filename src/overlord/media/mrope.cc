#include "overlord/media/mrope.h"

#include <algorithm>
#include <string>

namespace overlord::media {

Result<int64_t> mrope_positions(std::span<const MropeSpan> spans, std::span<int32_t> time,
                                std::span<int32_t> height, std::span<int32_t> width) {
  const auto tokens = static_cast<int64_t>(time.size());
  OVERLORD_CHECK(height.size() == time.size() && width.size() == time.size(),
                 "MRoPE planes of different lengths");
  int64_t next = 0;
  int64_t at = 0;
  const auto text_until = [&](int64_t end) {
    for (; at < end; ++at, ++next) {
      const auto i = static_cast<size_t>(at);
      time[i] = height[i] = width[i] = static_cast<int32_t>(next);
    }
  };
  for (size_t n = 0; n < spans.size(); ++n) {
    const MropeSpan& span = spans[n];
    const bool sized = span.t >= 1 && span.h >= 1 && span.w >= 1 && span.t_step >= 1;
    const int64_t count = sized ? int64_t{span.t} * span.h * span.w : 0;
    if (!sized || span.start < at || count > tokens || span.start > tokens - count) {
      return invalid_argument("media span " + std::to_string(n) + " (" + std::to_string(span.t) +
                              "x" + std::to_string(span.h) + "x" + std::to_string(span.w) +
                              " from token " + std::to_string(span.start) +
                              ") does not fit between token " + std::to_string(at) +
                              " and the end, " + std::to_string(tokens));
    }
    text_until(span.start);
    for (int32_t t = 0; t < span.t; ++t) {
      for (int32_t h = 0; h < span.h; ++h) {
        for (int32_t w = 0; w < span.w; ++w, ++at) {
          const auto i = static_cast<size_t>(at);
          time[i] = static_cast<int32_t>(next + int64_t{t} * span.t_step);
          height[i] = static_cast<int32_t>(next + h);
          width[i] = static_cast<int32_t>(next + w);
        }
      }
    }
    next += std::max<int64_t>({int64_t{span.t - 1} * span.t_step, span.h - 1, span.w - 1}) + 1;
  }
  text_until(tokens);
  return next;
}

}  // namespace overlord::media
