// What a clip says of itself: container, coding, size, rotation, how many frames it has and how
// long they last. Read by readers of our own from the tables of MP4 (QuickTime included) and the
// blocks of Matroska (WebM included); nothing is decoded and no library is asked. The count of
// frames is exact: it is the number of samples that are shown, not a product of rate and duration.
//
// What a probe needs. MP4 keeps its tables in one box, `moov`, in front of the frames or behind
// them: video_probe_need() says from a head which further bytes to read. Fragmented MP4 and
// Matroska tell the times of frames beside the frames, so they need the whole blob.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "overlord/base/fields.h"
#include "overlord/base/status.h"
#include "overlord/media/blob_head.h"

namespace overlord::media {

enum class VideoFormat : uint8_t { kMp4, kMatroska };
enum class VideoCoding : uint8_t { kH264, kHevc, kVp8, kVp9, kAv1, kMpeg4 };

// Every one is checked before what it bounds is allocated or worked on.
struct VideoLimits {
  int64_t bytes = int64_t{1} << 30;    // encoded
  int64_t pixels = int64_t{16} << 20;  // of one frame
  int64_t frames = int64_t{1} << 19;   // of the whole clip, shown or not
  int64_t seconds = 4 * 3600;          // of the whole clip
  int32_t streams = 32;                // pictures, sound, subtitles
  int64_t work = int64_t{1} << 36;     // pixels of all frames that a run has to decode

  friend bool operator==(const VideoLimits&, const VideoLimits&) = default;
  OVERLORD_FIELDS(bytes, pixels, frames, seconds, streams, work)
};

struct VideoHeader {
  VideoFormat format = VideoFormat::kMp4;
  VideoCoding coding = VideoCoding::kH264;
  int32_t width = 0;  // as stored
  int32_t height = 0;
  int32_t rotation = 0;  // 0, 90, 180, 270: clockwise, to be upright
  int64_t frames = 0;    // that are shown; exact
  int64_t ticks = 0;     // from the first frame to the end of the last
  int64_t tick_num = 1;  // seconds of a tick: tick_num / tick_den, in lowest terms
  int64_t tick_den = 1;

  friend bool operator==(const VideoHeader&, const VideoHeader&) = default;

  int64_t milliseconds() const;
  // Frames a second on average, in lowest terms.
  struct Rate {
    int64_t num = 0;
    int64_t den = 1;
  };
  Rate rate() const;
  // Whether every decoder of the coding gives the same levels. MPEG-4's inverse transform is
  // defined within a tolerance.
  bool exact() const { return coding != VideoCoding::kMpeg4; }
};

// The format by content, never by file name.
Result<VideoFormat> video_format(std::string_view head);

// What has to be read beside a head before the blob can be probed.
Result<BlobNeed> video_probe_need(const BlobHead& blob);

Result<VideoHeader> probe_video(const BlobHead& blob, const VideoLimits& limits);
Result<VideoHeader> probe_video(std::string_view bytes);

// Ok when a clip of this header and this many encoded bytes may be decoded.
Status check_limits(const VideoHeader& header, size_t encoded_bytes, const VideoLimits& limits);

}  // namespace overlord::media
