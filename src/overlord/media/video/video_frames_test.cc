#include "overlord/media/video/video_frames.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "overlord/base/rng.h"

namespace overlord::media {
namespace {

using Places = std::vector<int64_t>;

// A clip of 25 frames a second, 40 ticks each.
VideoHeader steady(int64_t frames) {
  VideoHeader header;
  header.width = header.height = 32;
  header.frames = frames;
  header.ticks = frames * 40;
  header.tick_den = 1000;
  return header;
}

Places times_of(const VideoHeader& header, int64_t first = 0) {
  Places times;
  for (int64_t i = 0; i < header.frames; ++i) times.push_back(first + i * 40);
  return times;
}

Places chosen(const VideoHeader& header, const VideoSpan& span, const FrameChoice& choice,
              int64_t first = 0) {
  return choose_frames(header, times_of(header, first), span, &choice).value();
}

TEST(VideoFrames, EndsAreTheReferenceRule) {
  // round(linspace(0, 249, 8)), halves to even
  EXPECT_EQ(chosen(steady(250), {}, {.frames = 8}), (Places{0, 36, 71, 107, 142, 178, 213, 249}));
  EXPECT_EQ(chosen(steady(6), {}, {.frames = 3}), (Places{0, 2, 5}));  // 2.5 is rounded to 2
  EXPECT_EQ(chosen(steady(250), {}, {.frames = 1}), (Places{0}));
  EXPECT_EQ(chosen(steady(250), {}, {.frames = 8}, 512), chosen(steady(250), {}, {.frames = 8}));
}

TEST(VideoFrames, StartsAndCentresAreOnDisplay) {
  EXPECT_EQ(chosen(steady(10), {}, {.frames = 4, .at = FramePlaces::kStarts}),
            (Places{0, 2, 5, 7}));
  EXPECT_EQ(chosen(steady(10), {}, {.frames = 4, .at = FramePlaces::kCentres}),
            (Places{1, 3, 6, 8}));
}

TEST(VideoFrames, TimesDecideWhereFramesAreUneven) {
  VideoHeader header = steady(5);
  header.ticks = 1000;
  const Places times = {0, 10, 20, 30, 900};  // four at once, then a long one
  const FrameChoice ends{.frames = 3};
  EXPECT_EQ(choose_frames(header, times, {}, &ends).value(), (Places{0, 3, 4}));
  const FrameChoice starts{.frames = 4, .at = FramePlaces::kStarts};
  EXPECT_EQ(choose_frames(header, times, {}, &starts).value(), (Places{0, 3, 3, 3}));
}

TEST(VideoFrames, RatesAreCountedFromTheHeader) {
  const auto count = [](int64_t frames, FrameChoice choice, VideoSpan span = {}) {
    return chosen_count(steady(frames), span, &choice).value();
  };
  EXPECT_EQ(count(250, {.fps = {2, 1}}), 20);
  EXPECT_EQ(count(250, {.fps = {1, 2}}), 5);
  EXPECT_EQ(count(250, {.fps = {2, 1}, .max = 16}), 16);
  EXPECT_EQ(count(250, {.fps = {1, 4}, .min = 4}), 4);
  EXPECT_EQ(count(250, {.fps = {3, 4}, .multiple_of = 4}), 4);
  EXPECT_EQ(count(5, {.fps = {60, 1}}), 5);                   // no more than there are
  EXPECT_EQ(count(1, {.fps = {2, 1}, .multiple_of = 2}), 2);  // one group at least
  EXPECT_EQ(count(250, {.fps = {2, 1}}, {2000, 5000}), 6);
  EXPECT_EQ(count(3, {.frames = 8}), 8);
}

TEST(VideoFrames, PartsOfAClip) {
  EXPECT_EQ(chosen(steady(250), {2000, 4000}, {.frames = 3}), (Places{50, 74, 99}));
  EXPECT_EQ(chosen(steady(250), {9000, 0}, {.frames = 2}), (Places{225, 249}));
  EXPECT_EQ(chosen(steady(250), {1001, 1010}, {.frames = 2}), (Places{25, 25}));  // between frames
  const FrameChoice choice{.frames = 2};
  EXPECT_EQ(chosen_count(steady(25), {1000, 0}, &choice).status().code(), Code::kBadData);
}

TEST(VideoFrames, AlwaysAscendingInsideAndAsManyAsPlanned) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const auto draw = [&](uint64_t n, uint64_t below) {
      return static_cast<int64_t>(uniform_below(seed, 9, n, below));
    };
    VideoHeader header = steady(1 + draw(0, 60));
    Places times(static_cast<size_t>(header.frames));
    int64_t now = draw(1, 100) - 50;
    for (size_t i = 0; i < times.size(); ++i, now += draw(i + 10, 80)) times[i] = now;
    header.ticks = std::max<int64_t>(now - times.front(), 1);
    header.tick_den = 1 + draw(2, 2000);
    FrameChoice choice;
    if (draw(3, 2) == 0) {
      choice.frames = 1 + draw(4, 40);
    } else {
      choice.fps = {1 + draw(4, 50), 1 + draw(5, 4)};
      choice.multiple_of = 1 + draw(6, 3);
      choice.max = choice.multiple_of + draw(7, 50);
    }
    choice.at = static_cast<FramePlaces>(draw(8, 3));
    const VideoSpan span{draw(3, 2) * 7, 0};
    const auto count = chosen_count(header, span, &choice);
    const auto places = choose_frames(header, times, span, &choice);
    ASSERT_EQ(count.ok(), places.ok());
    if (!count.ok()) continue;
    ASSERT_EQ(static_cast<int64_t>(places->size()), *count);
    EXPECT_TRUE(std::is_sorted(places->begin(), places->end()));
    EXPECT_GE(places->front(), 0);
    EXPECT_LT(places->back(), header.frames);
    EXPECT_EQ(*count % choice.multiple_of, 0);
  }
}

}  // namespace
}  // namespace overlord::media
