// From a clip to some of its frames. Decoding starts at the key frame before a wanted frame and
// ends with it; frames in between that nothing refers to are not decoded, and only wanted ones are
// handed on. All of that leaves the wanted frames as a full decode has them. What does not decode
// without an error, comes in another size than promised, or does not come, is a Status.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "overlord/base/hash.h"
#include "overlord/base/status.h"
#include "overlord/media/video/video_track.h"
#include "overlord/media/video/yuv.h"

namespace overlord::media {

struct VideoDecodeOptions {
  int32_t threads = 1;  // inside the decoder; the frames are the same with any number
  VideoLimits limits;

  friend bool operator==(const VideoDecodeOptions&, const VideoDecodeOptions&) = default;
  OVERLORD_FIELDS(threads, limits)
};

// The shown samples of a track in the order of time: places in `track.samples`.
std::vector<int64_t> shown_order(const VideoTrack& track);

// Gets each wanted frame once, in no promised order; `which` is its place in `wanted`. The planes
// are the decoder's and gone after the call.
using FrameTaker = std::function<Status(size_t which, const YuvFrame& frame)>;

// `wanted`: places in `track.samples`, each once.
Status decode_frames(std::string_view bytes, const VideoTrack& track,
                     std::span<const int64_t> wanted, const VideoDecodeOptions& options,
                     const FrameTaker& take);

// For media::codecs(); "" where the build has no video or the library is not there.
Status video_library();  // why there is none
std::string video_library_version();
std::string video_package();  // of Debian, that brings the library; "" where the build has no video
Digest video_fingerprint();

}  // namespace overlord::media
