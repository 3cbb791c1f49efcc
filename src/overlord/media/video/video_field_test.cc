#include <gtest/gtest.h>

#include "overlord/media/field_chain.h"
#include "overlord/media/video/kept_clips.h"
#include "overlord/media/video/video_chain.h"

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

// What a probe says of a clip of which `head` bytes are read, and what it needs beside them.
Result<HeaderValues> probed_in_parts(std::string_view clip, size_t head, BlobNeed* need) {
  BlobHead blob{clip.substr(0, head), clip.size()};
  OVERLORD_TRY(*need, kind().need(blob));
  const std::string_view more = clip.substr(need->offset, need->size_bytes);
  if (need->size_bytes > 0 && need->offset == 0) blob.head = more;
  if (need->offset > 0) {
    blob.tail_offset = need->offset;
    blob.tail = more;
  }
  return kind().probe(blob);
}

TEST(VideoField, TablesAreReadWhereverTheyAre) {
  const std::string_view clip = kept_clips()[0];  // has them behind
  EXPECT_FALSE(kind().probe({clip.substr(0, 200), clip.size()}).ok());
  const size_t frames = clip.find("mdat") - 4;
  const size_t tables = clip.find("moov") - 4;
  BlobNeed need;
  const auto behind = probed_in_parts(clip, 200, &need);
  ASSERT_TRUE(behind.ok()) << behind.status().message();
  EXPECT_EQ(*behind, header_of(clip));
  EXPECT_EQ(need.offset, tables);

  std::string front(clip.substr(0, frames));
  front += clip.substr(tables);
  front += clip.substr(frames, tables - frames);
  // The places of frames are off then, and inside the blob: a probe sees no difference.
  const auto ahead = probed_in_parts(front, clip.size() - 200, &need);
  ASSERT_TRUE(ahead.ok()) << ahead.status().message();
  EXPECT_EQ(*ahead, *behind);
  EXPECT_EQ(need.size_bytes, 0U);
  const auto begun = probed_in_parts(front, frames + 40, &need);
  ASSERT_TRUE(begun.ok()) << begun.status().message();
  EXPECT_EQ(*begun, *behind);
  EXPECT_EQ(need.size_bytes, clip.size() - tables) << "the box and no frames";
}

TEST(VideoField, MatroskaIsReadWhole) {
  BlobNeed need;
  for (const std::string_view clip : kept_clips()) {
    if (video_format(clip).value() != VideoFormat::kMatroska) continue;
    const auto header = probed_in_parts(clip, 200, &need);
    ASSERT_TRUE(header.ok()) << header.status().message();
    EXPECT_EQ(*header, header_of(clip));
    EXPECT_EQ(need.size_bytes, clip.size());
  }
}

}  // namespace
}  // namespace overlord::media
