// What the boxes of an MP4's first video track say, before it becomes a list of samples.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/media/video/mp4_boxes.h"
#include "overlord/media/video/video_track.h"

namespace overlord::media {

// The part of the track's time that is shown, in ticks; without an end: up to the last frame.
struct Mp4Edit {
  int64_t start = 0;
  std::optional<int64_t> length;  // in units of the movie's own clock
};

struct Mp4Tables {
  uint32_t track_id = 0;
  int32_t rotation = 0;
  int64_t timescale = 0;        // ticks a second
  int64_t movie_timescale = 0;  // of edits
  std::optional<Mp4Edit> edit;
  std::optional<VideoCoding> coding;
  int32_t width = 0;
  int32_t height = 0;
  std::string_view setup;
  std::optional<Mp4Table> durations;  // stts
  std::optional<Mp4Table> delays;     // ctts
  std::optional<Mp4Table> keys;       // stss
  std::optional<Mp4Table> runs;       // stsc
  std::optional<Mp4Table> chunks;     // stco, co64
  std::string_view sizes;             // stsz, its body
  // Of fragments that say nothing of their own (trex).
  bool fragmented = false;
  uint32_t fragment_duration = 0;
  uint32_t fragment_size = 0;
  uint32_t fragment_flags = 0;
};

// Reads the body of `moov`.
Result<Mp4Tables> read_mp4_tables(std::string_view moov, const VideoLimits& limits);

}  // namespace overlord::media
