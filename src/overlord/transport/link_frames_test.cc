#include "overlord/transport/link_frames.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "overlord/base/rng.h"

namespace overlord::transport {
namespace {

std::string framed(const std::string& payload, uint32_t descriptors = 0) {
  const FrameHead head = frame_head(descriptors, payload.size());
  return std::string(head.data(), head.size()) + payload;
}

std::vector<runtime::Descriptor> some_descriptors(size_t count) {
  std::vector<runtime::Descriptor> made;
  for (size_t i = 0; i < count; ++i) made.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
  return made;
}

// Feeds `bytes` in the given portions, as a socket would.
class Feed {
 public:
  explicit Feed(uint64_t max_frame_bytes) : reader(max_frame_bytes), scratch_(100'000) {}
  Status give(const std::string& bytes, std::vector<runtime::Descriptor> descriptors = {}) {
    size_t done = 0;
    do {
      const std::span<char> space = reader.space(scratch_);
      const size_t count = std::min(space.size(), bytes.size() - done);
      std::memcpy(space.data(), bytes.data() + done, count);
      OVERLORD_RETURN_IF_ERROR(
          reader.arrived(scratch_, count, std::exchange(descriptors, {}), &frames));
      done += count;
    } while (done < bytes.size());
    return {};
  }

  FrameReader reader;
  std::vector<ReceivedFrame> frames;

 private:
  std::vector<char> scratch_;
};

TEST(FrameReader, CutsAnyPortionsIntoTheSameFrames) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    uint64_t draws = 0;
    const auto below = [&](uint64_t n) { return uniform_below(seed, ++draws, 0, n); };
    std::vector<std::string> sent;
    std::string stream;
    for (int i = 0; i < 20; ++i) {
      sent.emplace_back(below(3) == 0 ? below(200'000) : below(40), static_cast<char>('a' + i));
      stream += framed(sent.back());
    }
    Feed feed(1 << 20);
    for (size_t at = 0; at < stream.size();) {
      const size_t count = 1 + below(below(2) == 0 ? 30 : 150'000);
      ASSERT_TRUE(feed.give(stream.substr(at, count)).ok());
      at += count;
    }
    ASSERT_EQ(feed.frames.size(), sent.size());
    for (size_t i = 0; i < sent.size(); ++i) {
      const runtime::Bytes& payload = feed.frames[i].payload;
      EXPECT_EQ(std::string(payload.data, payload.size), sent[i]);
    }
    EXPECT_FALSE(feed.reader.in_mid_frame());
  }
}

TEST(FrameReader, RefusesWhatIsNoFrame) {
  const auto refused = [](const std::string& bytes) {
    Feed feed(1000);
    return feed.give(bytes).code() == Code::kBadData;
  };
  EXPECT_TRUE(refused("GET / HTTP/1.1\r\n\r\n"));
  EXPECT_TRUE(refused(framed("ok") + "garbage that is long enough"));
  EXPECT_TRUE(refused(framed(std::string(1001, 'x'))));
  const FrameHead huge = frame_head(0, UINT64_MAX);
  EXPECT_TRUE(refused(std::string(huge.data(), huge.size())));
  EXPECT_TRUE(refused(framed("", kFrameDescriptors + 1)));
  EXPECT_TRUE(refused(framed("", 1)));  // announced, not sent
  EXPECT_FALSE(refused(framed(std::string(1000, 'x'))));
}

TEST(FrameReader, GivesDescriptorsToTheirFrame) {
  Feed feed(1000);
  const std::string stream = framed("a") + framed("bc", 2);
  // They come with the first byte of the second frame; its head is not complete yet.
  ASSERT_TRUE(feed.give(stream.substr(0, 20), some_descriptors(2)).ok());
  ASSERT_TRUE(feed.give(stream.substr(20)).ok());
  ASSERT_EQ(feed.frames.size(), 2u);
  EXPECT_TRUE(feed.frames[0].descriptors.empty());
  EXPECT_EQ(feed.frames[1].descriptors.size(), 2u);
}

TEST(FrameReader, RefusesDescriptorsThatWereNotAnnounced) {
  Feed alone(1000);
  EXPECT_EQ(alone.give(framed("a"), some_descriptors(1)).code(), Code::kBadData);
  Feed more(1000);
  EXPECT_EQ(more.give(framed("abc", 1).substr(0, 17), some_descriptors(2)).code(), Code::kBadData);
  Feed between(1000);
  ASSERT_TRUE(between.give(framed("abcdef").substr(0, 18)).ok());
  EXPECT_EQ(between.give("c", some_descriptors(1)).code(), Code::kBadData);
}

// Random damage never crashes and never gives a frame larger than allowed.
TEST(FrameReader, SurvivesDamage) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    uint64_t draws = 0;
    const auto below = [&](uint64_t n) { return uniform_below(seed, ++draws, 1, n); };
    std::string stream = framed(std::string(below(100), 'x')) + framed("second") + framed("");
    for (uint64_t i = 0; i < 1 + below(3); ++i) {
      stream[below(stream.size())] = static_cast<char>(below(256));
    }
    Feed feed(200);
    const Status status = feed.give(stream, some_descriptors(below(3)));
    for (const ReceivedFrame& frame : feed.frames) EXPECT_LE(frame.payload.size, 200u);
    EXPECT_TRUE(status.ok() || status.code() == Code::kBadData) << status.message();
  }
}

}  // namespace
}  // namespace overlord::transport
