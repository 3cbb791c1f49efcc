// Which frames of a clip are taken: whole-number functions of the header, the times of its frames
// and the config. How many there are follows from the header alone, so plans need no bytes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/media/video/video_header.h"

namespace overlord::media {

// A part of the clip, in milliseconds from its first frame.
struct VideoSpan {
  int64_t start = 0;
  int64_t end = 0;  // 0: to the end

  friend bool operator==(const VideoSpan&, const VideoSpan&) = default;
  OVERLORD_FIELDS(start, end)
};

struct FrameRate {
  int64_t num = 0;  // 0: none
  int64_t den = 1;

  friend bool operator==(const FrameRate&, const FrameRate&) = default;
};

// Where in a span of time the wanted moments lie.
//   ends: first and last frame and evenly between, the frame nearest to each (qwen_vl_utils).
//   starts, centres: of N equal parts; the frame that is on display then.
enum class FramePlaces : uint8_t { kEnds, kStarts, kCentres };

struct FrameChoice {
  int64_t frames = 0;  // so many; or, where 0,
  FrameRate fps = {};  // so many a second,
  int64_t min = 1;     // within these,
  int64_t max = 768;
  int64_t multiple_of = 1;  // rounded down to whole groups, one group at least
  FramePlaces at = FramePlaces::kEnds;

  friend bool operator==(const FrameChoice&, const FrameChoice&) = default;
  OVERLORD_FIELDS(frames, fps, min, max, multiple_of, at)
};

// How many frames are taken. Rates give no more frames than the span has by its share of the clip;
// `frames` repeats some where there are not enough. Without a choice: all.
Result<int64_t> chosen_count(const VideoHeader& header, const VideoSpan& span,
                             const FrameChoice* choice);

// Places in `times` (ticks of the shown frames, ascending), never falling; chosen_count() of them.
Result<std::vector<int64_t>> choose_frames(const VideoHeader& header,
                                           std::span<const int64_t> times, const VideoSpan& span,
                                           const FrameChoice* choice);

}  // namespace overlord::media
