#include "overlord/media/video/video_chain.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "overlord/media/codecs.h"
#include "overlord/media/video/kept_clips.h"

namespace overlord::media {
namespace {

using Outcome = PreparedVideoChain::Outcome;

Result<PreparedVideoChain> prepared(std::string_view text) {
  OVERLORD_TRY(VideoChain chain, parse_video_chain(text));
  return PreparedVideoChain::prepare(std::move(chain));
}

Result<Outcome> run(std::string_view bytes, std::string_view text) {
  OVERLORD_TRY(const PreparedVideoChain chain, prepared(text));
  VideoScratch scratch;
  return chain.run(bytes, 0, scratch);
}

class VideoChains : public testing::Test {
 protected:
  void SetUp() override {
    if (video_library_version().empty()) GTEST_SKIP() << "no FFmpeg on this machine";
  }
};

TEST(VideoChainText, NamesEveryValueAndParsesBack) {
  const std::string_view text =
      "decode threads=2 max_seconds=60; orient; clip start=100 end=2000; sample fps=30000/1001 "
      "min=4 max=32 multiple_of=2 at=centres; smart_resize total_pixels=1000000; centre_crop "
      "width=56 height=28; normalise std=0.5,0.5,0.5; patchify layout=qwen2vl patch=14";
  const auto chain = parse_video_chain(text);
  ASSERT_TRUE(chain.ok()) << chain.status().message();
  const std::string whole = chain_text(*chain);
  EXPECT_EQ(parse_video_chain(whole).value(), *chain);
  EXPECT_NE(whole.find("fps=30000/1001"), std::string::npos);
  EXPECT_NE(whole.find("max_work="), std::string::npos);
}

TEST(VideoChainText, RefusesWhatCannotRun) {
  for (const std::string_view text :
       {"clip start=5", "sample frames=4; clip", "sample", "sample frames=3 fps=2",
        "sample frames=3 multiple_of=2", "sample fps=1/0", "resize width=8 height=8; orient",
        "patchify; normalise", "planes; patchify", "sample frames=2; sample frames=2",
        "resize width=0 height=1", "clip start=5 end=5; sample frames=1", "decode threads=0",
        "smart_resize min_pixels=0", "blur"}) {
    EXPECT_EQ(prepared(text).status().code(), Code::kInvalidArgument) << text;
  }
}

TEST_F(VideoChains, SomeFramesAreThoseOfAllFrames) {
  for (const std::string_view clip : kept_clips()) {
    const auto all = run(clip, "");
    ASSERT_TRUE(all.ok()) << all.status().message();
    ASSERT_EQ(all->geometry.frames, 6);
    const size_t frame = all->bytes.size() / 6;
    // Key frames, frames that nothing leans on, and both: starting anywhere changes nothing.
    for (int64_t start = 0; start < 6; ++start) {
      const auto one = run(clip, "clip start=" + std::to_string(40 * start) + " end=" +
                                     std::to_string(40 * start + 40) + "; sample frames=1");
      ASSERT_TRUE(one.ok()) << one.status().message();
      EXPECT_EQ(std::memcmp(one->bytes.data(), all->bytes.data() + frame * start, frame), 0)
          << start;
    }
    const auto some = run(clip, "decode threads=2; sample frames=3");
    ASSERT_TRUE(some.ok());
    for (size_t i = 0; i < 3; ++i) {
      const size_t place = std::array<size_t, 3>{0, 2, 5}[i];
      EXPECT_EQ(
          std::memcmp(some->bytes.data() + frame * i, all->bytes.data() + frame * place, frame), 0);
    }
  }
}

TEST_F(VideoChains, TheHeaderPlansWhatComes) {
  for (const std::string_view clip : kept_clips()) {
    for (const std::string_view text :
         {"sample frames=4; resize width=20 height=12", "sample frames=9; resize_short side=10",
          "sample fps=5; centre_crop width=8 height=6; planes; normalise",
          "sample frames=5; resize width=28 height=28; patchify patch=14 temporal=2 merge=2",
          "smart_resize min_pixels=784 max_pixels=3136; normalise; patchify"}) {
      const auto chain = prepared(text);
      ASSERT_TRUE(chain.ok()) << chain.status().message();
      const auto planned = chain->planned_size(probe_video(clip).value());
      const auto outcome = run(clip, text);
      ASSERT_TRUE(outcome.ok()) << outcome.status().message();
      EXPECT_EQ(outcome->geometry, *planned) << text;
      EXPECT_EQ(outcome->bytes.size(), planned->bytes());
    }
  }
}

TEST_F(VideoChains, PatchesSpanRealFramesAndRepeatTheLast) {
  constexpr size_t kSide = 28;
  const auto frames = run(kept_clips()[0], "sample frames=3; resize width=28 height=28");
  const auto patches =
      run(kept_clips()[0], "sample frames=3; resize width=28 height=28; patchify patch=14");
  ASSERT_TRUE(patches.ok()) << patches.status().message();
  EXPECT_EQ(patches->geometry.grid_t, 2);
  EXPECT_EQ(patches->geometry.patches, 8);
  EXPECT_EQ(patches->geometry.tokens, 2);
  for (size_t row = 0; row < 8; ++row) {
    for (size_t value = 0; value < 1176; ++value) {
      const size_t c = value / 392;
      const size_t t = std::min<size_t>(row / 4 * 2 + value % 392 / 196, 2);
      const size_t y = row % 4 / 2 * 14 + value % 196 / 14;
      const size_t x = row % 2 * 14 + value % 14;
      ASSERT_EQ(patches->bytes[row * 1176 + value],
                frames->bytes[((t * kSide + y) * kSide + x) * 3 + c]);
    }
  }
}

TEST_F(VideoChains, AnotherHeaderThanPromisedIsBadData) {
  const auto chain = prepared("sample frames=2");
  VideoHeader header = probe_video(kept_clips()[0]).value();
  ++header.frames;
  VideoScratch scratch;
  std::vector<uint8_t> out(chain->planned_size(header)->bytes());
  EXPECT_EQ(chain->run(kept_clips()[0], header, 0, scratch, out).code(), Code::kBadData);
}

TEST_F(VideoChains, DamageIsBadDataAndWorkIsBounded) {
  std::string damaged(kept_clips()[0]);
  const size_t data = damaged.find("mdat") + 40;
  for (size_t i = 0; i < 200; ++i) damaged[data + i] = static_cast<char>(i * 37);
  EXPECT_EQ(run(damaged, "").status().code(), Code::kBadData);
  const auto over = run(kept_clips()[0], "decode max_work=5000");
  EXPECT_NE(over.status().message().find("max_work"), std::string::npos);
  EXPECT_TRUE(run(kept_clips()[0], "decode max_work=5000; clip end=40; sample frames=1").ok());
}

TEST(VideoCodec, IsListed) {
  const Codec& codec = codecs().back();
  EXPECT_EQ(codec.name, "video");
  EXPECT_EQ(codec.present, !video_library_version().empty());
  if (!codec.present) return;
  EXPECT_EQ(codec.fingerprint, kVideoFingerprint) << codec.fingerprint.hex();
}

}  // namespace
}  // namespace overlord::media
