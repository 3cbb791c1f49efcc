#include "overlord/media/video/video_frames.h"

#include <algorithm>
#include <string>

#include "overlord/base/fixed_point.h"

namespace overlord::media {
namespace {

struct TickSpan {
  int64_t start = 0;
  int64_t end = 0;
};

int64_t ticks_of(int64_t milliseconds, const VideoHeader& header) {
  const Int128 ticks = Int128{milliseconds} * header.tick_den / (Int128{1000} * header.tick_num);
  return static_cast<int64_t>(std::min<Int128>(ticks, header.ticks));
}

Result<TickSpan> tick_span(const VideoHeader& header, const VideoSpan& span) {
  const TickSpan out{ticks_of(span.start, header),
                     span.end == 0 ? header.ticks : ticks_of(span.end, header)};
  if (out.start < out.end) return out;
  return bad_data("clip starts at " + std::to_string(span.start) + " ms, the video has " +
                  std::to_string(header.milliseconds()) + " ms");
}

// The last place in [low, high) whose time, times `scale`, is at most `target`; low if none is.
int64_t on_display(std::span<const int64_t> times, int64_t low, int64_t high, Int128 scale,
                   Int128 target) {
  const auto begin = times.begin() + low;
  const auto found =
      std::upper_bound(begin, times.begin() + high, target,
                       [&](Int128 wanted, int64_t time) { return wanted < Int128{time} * scale; });
  return low + std::max<int64_t>(found - begin - 1, 0);
}

// As on_display, or the one after it where that is nearer; between equally near ones the one with
// an even number, which is how the reference rounds.
int64_t nearest(std::span<const int64_t> times, int64_t low, int64_t high, Int128 scale,
                Int128 target) {
  const int64_t before = on_display(times, low, high, scale, target);
  if (before + 1 >= high) return before;
  const auto i = static_cast<size_t>(before);
  const Int128 back = target - Int128{times[i]} * scale;
  const Int128 ahead = Int128{times[i + 1]} * scale - target;
  if (back != ahead) return back < ahead ? before : before + 1;
  return before + (before - low) % 2;
}

}  // namespace

Result<int64_t> chosen_count(const VideoHeader& header, const VideoSpan& span,
                             const FrameChoice* choice) {
  OVERLORD_TRY(const TickSpan ticks, tick_span(header, span));
  if (choice == nullptr) return header.frames;
  if (choice->frames > 0) return choice->frames;
  const Int128 length = ticks.end - ticks.start;
  const Int128 wanted =
      length * header.tick_num * choice->fps.num / choice->fps.den / header.tick_den;
  const auto share =
      static_cast<int64_t>(std::max<Int128>(Int128{header.frames} * length / header.ticks, 1));
  const auto within = static_cast<int64_t>(
      std::min<Int128>(std::max<Int128>(wanted, choice->min), std::min(choice->max, share)));
  return std::max(within / choice->multiple_of, int64_t{1}) * choice->multiple_of;
}

Result<std::vector<int64_t>> choose_frames(const VideoHeader& header,
                                           std::span<const int64_t> times, const VideoSpan& span,
                                           const FrameChoice* choice) {
  OVERLORD_TRY(const int64_t count, chosen_count(header, span, choice));
  OVERLORD_TRY(TickSpan ticks, tick_span(header, span));
  const int64_t first = times.front();
  ticks.start += first;
  ticks.end += first;
  const auto place = [&](int64_t tick) {
    return std::lower_bound(times.begin(), times.end(), tick) - times.begin();
  };
  int64_t low = place(ticks.start);
  int64_t high = span.end == 0 ? static_cast<int64_t>(times.size()) : place(ticks.end);
  if (low >= high) {  // no frame begins in the span: the one that is on display then
    low = std::max<int64_t>(low - 1, 0);
    high = low + 1;
  }
  std::vector<int64_t> out(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    int64_t& to = out[static_cast<size_t>(i)];
    if (choice == nullptr) {
      to = low + i;
    } else if (choice->at == FramePlaces::kEnds) {
      const Int128 parts = std::max<int64_t>(count - 1, 1);
      const Int128 from = times[static_cast<size_t>(low)];
      const Int128 length = times[static_cast<size_t>(high - 1)] - from;
      to = nearest(times, low, high, parts, from * parts + i * length);
    } else {
      const int64_t halves = choice->at == FramePlaces::kStarts ? 2 * i : 2 * i + 1;
      const Int128 parts = Int128{2} * count;
      const Int128 length = ticks.end - ticks.start;
      to = on_display(times, low, high, parts, ticks.start * parts + halves * length);
    }
  }
  return out;
}

}  // namespace overlord::media
