// Clips whose tables are made to keep a reader busy: what is done for them grows with their size
// and no faster.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "overlord/media/video/video_decode.h"

namespace overlord::media {
namespace {

constexpr int64_t kFrames = 400'000;

// Every sample is a key frame, shown before the one that is decoded ahead of it.
VideoTrack backwards() {
  VideoTrack track;
  track.header.width = 16;
  track.header.height = 16;
  track.header.frames = kFrames;
  for (int64_t i = 0; i < kFrames; ++i) {
    VideoSample sample;
    sample.time = kFrames - i;
    sample.size = 1;
    sample.key = true;
    track.samples.push_back(sample);
  }
  return track;
}

Status decode(const VideoTrack& track, const std::vector<int64_t>& wanted) {
  VideoDecodeOptions options;
  options.limits.work = 1;
  return decode_frames("x", track, wanted, options,
                       [](size_t, const YuvFrame&) { return Status(); });
}

// With a walk over all key frames for each of them this would take hours.
TEST(EndlessClips, KeyFramesAreNotWalkedForEveryFrame) {
  const VideoTrack track = backwards();
  std::vector<int64_t> wanted(kFrames);
  std::iota(wanted.begin(), wanted.end(), 0);
  const Status status = decode(track, wanted);
  EXPECT_FALSE(status.ok());
  if (!video_library().ok()) GTEST_SKIP() << status.message();
  EXPECT_NE(status.message().find("max_work"), std::string::npos) << status.message();
}

TEST(EndlessClips, FramesThatAllShowAtOneTimeAreRefused) {
  VideoTrack track = backwards();
  track.header.frames = 0;
  for (VideoSample& sample : track.samples) sample.time = 7;
  const Status status = finish_track({}, &track);
  EXPECT_EQ(status.code(), Code::kBadData);
  EXPECT_NE(status.message().find("at one time"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace overlord::media
