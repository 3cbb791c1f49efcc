#include "overlord/media/video/video_header.h"

#include <gtest/gtest.h>

#include <string>

#include "overlord/media/video/kept_clips.h"

namespace overlord::media {
namespace {

std::string_view mp4() { return kept_clips()[0]; }
std::string_view webm() { return kept_clips()[1]; }

// Puts `text` in place of the first `found`; both as long.
std::string swapped(std::string_view bytes, std::string_view found, std::string_view text) {
  std::string out(bytes);
  const size_t at = out.find(found);
  EXPECT_NE(at, std::string::npos);
  EXPECT_EQ(found.size(), text.size());
  return out.replace(at, found.size(), text);
}

TEST(VideoHeader, ReadsTheTables) {
  const auto header = probe_video(mp4());
  ASSERT_TRUE(header.ok()) << header.status().message();
  EXPECT_EQ(header->format, VideoFormat::kMp4);
  EXPECT_EQ(header->coding, VideoCoding::kH264);
  EXPECT_EQ(header->width, 32);
  EXPECT_EQ(header->height, 32);
  EXPECT_EQ(header->frames, 6);
  EXPECT_EQ(header->milliseconds(), 240);
  EXPECT_EQ(header->rate().num, 25);
  EXPECT_EQ(header->rate().den, 1);
  EXPECT_TRUE(header->exact());
}

TEST(VideoHeader, ReadsTheBlocks) {
  const auto header = probe_video(webm());
  ASSERT_TRUE(header.ok()) << header.status().message();
  EXPECT_EQ(header->format, VideoFormat::kMatroska);
  EXPECT_EQ(header->coding, VideoCoding::kVp9);
  EXPECT_EQ(header->frames, 6);
  EXPECT_EQ(header->milliseconds(), 240);
}

TEST(VideoHeader, SaysWhichBytesAProbeNeeds) {
  // FFmpeg writes `moov` behind the frames: a short head has only the start of them.
  const std::string_view bytes = mp4();
  const auto need = video_probe_need({bytes.substr(0, 64), bytes.size()});
  ASSERT_TRUE(need.ok()) << need.status().message();
  EXPECT_EQ(bytes.substr(need->offset + 4, 4), "moov");
  EXPECT_EQ(need->offset + need->size_bytes, bytes.size());
  const auto parts = probe_video(
      {bytes.substr(0, 64), bytes.size(), need->offset, bytes.substr(need->offset)}, {});
  ASSERT_TRUE(parts.ok()) << parts.status().message();
  EXPECT_EQ(*parts, *probe_video(bytes));
  EXPECT_EQ(video_probe_need(BlobHead::all_of(bytes))->size_bytes, 0u);
  const auto blocks = video_probe_need({webm().substr(0, 64), 1000});
  EXPECT_EQ(blocks->offset, 64u);
  EXPECT_EQ(blocks->size_bytes, 936u);
}

TEST(VideoHeader, ACutFileIsFoundWithoutDecoding) {
  const std::string_view bytes = mp4();
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(probe_video(bytes.substr(0, size)).ok()) << size;
  }
}

TEST(VideoHeader, BytesBehindTheLastBoxDoNotMatter) {
  EXPECT_TRUE(probe_video(std::string(mp4()) + std::string(100, '\0')).ok());
}

TEST(VideoHeader, RefusalsSayWhatWasFound) {
  const auto message = [](std::string_view bytes) { return probe_video(bytes).status().message(); };
  EXPECT_NE(message("#EXTM3U\n#EXT-X-VERSION:3\n").find("playlist"), std::string::npos);
  EXPECT_NE(message("").find("empty"), std::string::npos);
  EXPECT_NE(
      message(swapped(mp4(), std::string_view("avc1\0\0", 6), std::string_view("drac\0\0", 6)))
          .find("drac"),
      std::string::npos);
  EXPECT_NE(message(swapped(mp4(), "vide", "soun")).find("no video track"), std::string::npos);
  EXPECT_NE(message(swapped(mp4(), "moov", "free")).find("no moov"), std::string::npos);
}

TEST(VideoHeader, LimitsComeFirst) {
  const BlobHead parts = BlobHead::all_of(mp4());
  const auto refused = [&](VideoLimits limits, std::string_view name) {
    const auto header = probe_video(parts, limits);
    return !header.ok() && header.status().message().find(name) != std::string::npos;
  };
  EXPECT_TRUE(refused({.bytes = 100}, "max_bytes"));
  EXPECT_TRUE(refused({.pixels = 1000}, "max_pixels"));
  EXPECT_TRUE(refused({.frames = 5}, "max_frames"));
  EXPECT_TRUE(refused({.streams = 0}, "max_streams"));
  EXPECT_TRUE(probe_video(parts, {.pixels = 1024, .frames = 6}).ok());
}

}  // namespace
}  // namespace overlord::media
