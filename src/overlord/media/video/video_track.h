// The frames of a clip's first video stream as its container lists them: when each is shown, where
// its bytes lie, and where decoding may start. Made of foreign bytes by readers that bound every
// count before they allocate; every place is inside the blob.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/media/video/video_header.h"

namespace overlord::media {

struct VideoSample {
  int64_t time = 0;      // in ticks
  int64_t duration = 0;  // in ticks; 0 where it is not told
  int64_t offset = 0;
  int64_t size = 0;
  bool key = false;   // decoding may start here
  bool shown = true;  // not cut away by an edit list, not marked invisible
};

struct VideoTrack {
  VideoHeader header;
  std::string_view setup;            // what the decoder needs before the first frame
  std::vector<VideoSample> samples;  // in the order of decoding
};

Result<VideoTrack> read_video_track(const BlobHead& blob, const VideoLimits& limits);

// One per container; finish_track follows.
Result<VideoTrack> read_mp4_track(const BlobHead& blob, const VideoLimits& limits);
Result<VideoTrack> read_matroska_track(std::string_view bytes, const VideoLimits& limits);
Result<BlobNeed> mp4_probe_need(const BlobHead& blob);

// Counts frames and ticks of the samples that are shown.
Status finish_track(const VideoLimits& limits, VideoTrack* track);

}  // namespace overlord::media
