#include <gtest/gtest.h>

#include "overlord/media/field_chain.h"
#include "overlord/media/kept_clips.h"
#include "overlord/media/video_chain.h"

namespace overlord::media {
namespace {

const KindOfMedia& kind() { return kind_of_media(model::MediaKind::kVideo); }

HeaderValues header_of(std::string_view clip) { return kind().probe({clip, clip.size()}).value(); }

TEST(VideoField, PlansPatchesAsTheirGrid) {
  const auto chain =
      kind().prepare("sample frames=5; resize width=56 height=28; patchify patch=14").value();
  EXPECT_EQ(chain->rows().shape, (std::vector<uint32_t>{1176}));
  EXPECT_TRUE(chain->rows().tells_tokens);
  const FieldPlan plan = chain->planned(header_of(kept_clips()[0]), 100).value();
  EXPECT_EQ(plan.shape.t, 3U);  // five frames and the last again
  EXPECT_EQ(plan.shape.h, 2U);
  EXPECT_EQ(plan.shape.w, 4U);
  EXPECT_EQ(plan.shape.rows, 24U);
  EXPECT_EQ(plan.tokens, 6);
  EXPECT_EQ(plan.units, 24);
}

TEST(VideoField, PlansFramesOfOneSize) {
  const auto chain =
      kind().prepare("sample frames=4; resize width=20 height=10; normalise").value();
  EXPECT_EQ(chain->rows().shape, (std::vector<uint32_t>{10, 20, 3}));
  const FieldPlan plan = chain->planned(header_of(kept_clips()[1]), 100).value();
  EXPECT_EQ(plan.shape.rows, 4U);
  EXPECT_EQ(plan.size_bytes, 4U * 20 * 10 * 3 * 4);
  EXPECT_FALSE(kind().prepare("sample frames=4").ok());
  EXPECT_FALSE(kind().prepare("sample frames=4; smart_resize").ok());
}

TEST(VideoField, RunsAsTheChainDoesAndKeepsThePromise) {
  if (video_library_version().empty()) GTEST_SKIP() << "no FFmpeg on this machine";
  const std::string_view clip = kept_clips()[0];
  const std::string_view text = "sample frames=3; resize width=28 height=28; patchify";
  const auto chain = kind().prepare(text).value();
  HeaderValues header = header_of(clip);
  std::vector<uint8_t> out(chain->planned(header, clip.size())->size_bytes);
  ASSERT_TRUE(chain->run(clip, header, 1, out).ok());
  VideoScratch scratch;
  const auto alone =
      PreparedVideoChain::prepare(parse_video_chain(text).value())->run(clip, 1, scratch);
  EXPECT_EQ(out, alone->bytes);
  ++header[4];
  EXPECT_EQ(chain->run(clip, header, 1, out).code(), Code::kBadData);
}

TEST(VideoField, AHeadIsEnoughWhereTheTablesAreInFront) {
  const std::string_view clip = kept_clips()[0];  // has them behind
  EXPECT_FALSE(kind().probe({clip.substr(0, 200), clip.size()}).ok());
  const size_t frames = clip.find("mdat") - 4;
  const size_t tables = clip.find("moov") - 4;
  std::string front(clip.substr(0, frames));
  front += clip.substr(tables);
  front += clip.substr(frames, tables - frames);
  // The places of frames are off then, and inside the blob: a probe sees no difference.
  const auto whole = kind().probe({front, front.size()});
  const auto head =
      kind().probe({std::string_view(front).substr(0, clip.size() - 200), front.size()});
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  ASSERT_TRUE(head.ok()) << head.status().message();
  EXPECT_EQ(*whole, *head);
}

}  // namespace
}  // namespace overlord::media
