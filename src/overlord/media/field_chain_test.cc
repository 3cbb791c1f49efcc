// Needs codecs: JPEG PNG
#include "overlord/media/field_chain.h"

#include <gtest/gtest.h>

#include "overlord/media/image/image_chain.h"
#include "overlord/media/image/made_up_images_test.h"

namespace overlord::media {
namespace {

using model::MediaKind;

std::string of_kinds(const Result<model::MediaKind>& kind) { return kind.status().message(); }

TEST(FieldChain, KindsAreKnownByName) {
  EXPECT_EQ(media_kind("image").value(), MediaKind::kImage);
  EXPECT_EQ(kind_of_media(MediaKind::kImage).name, "image");
  const auto none = media_kind("smell");
  ASSERT_FALSE(none.ok());
  EXPECT_NE(of_kinds(none).find("smell"), std::string::npos);
  EXPECT_NE(of_kinds(none).find("image"), std::string::npos);
}

// What an index of pictures was made with: another text would build all of them anew.
TEST(FieldChain, IndexesOfPicturesStayValid) {
  const KindOfMedia& pictures = kind_of_media(MediaKind::kImage);
  EXPECT_EQ(pictures.probe_version, "picture headers 2");
  EXPECT_EQ(pictures.header_values, 3u);
  EXPECT_EQ(pictures.head_bytes, 65536u);
}

TEST(FieldChain, PicturesAreWhatTheirChainMakes) {
  const std::string bytes = jpeg_of(photo(48, 64, 5));
  const KindOfMedia& pictures = kind_of_media(MediaKind::kImage);
  const auto header = pictures.probe({bytes, bytes.size()});
  ASSERT_TRUE(header.ok()) << header.status().message();
  EXPECT_EQ(*header, (HeaderValues{48, 64, 1}));
  ChainScratch scratch;
  for (const std::string text :
       {"random_flip; patchify layout=vit patch=8", "normalise; patchify layout=qwen2vl patch=8",
        "tile size=32 most=4; normalise", "resize width=20 height=10; planes"}) {
    const auto chain = pictures.prepare(text);
    ASSERT_TRUE(chain.ok()) << text << ": " << chain.status().message();
    EXPECT_EQ(pictures.prepare((*chain)->text()).value()->text(), (*chain)->text());
    const auto plan = (*chain)->planned(*header, bytes.size());
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    const auto alone =
        PreparedImageChain::prepare(parse_chain(text).value())->run(bytes, 7, scratch);
    ASSERT_TRUE(alone.ok()) << alone.status().message();
    ASSERT_EQ(plan->size_bytes, alone->bytes.size());
    EXPECT_EQ(plan->units, alone->geometry.patches);
    EXPECT_EQ(plan->tokens, alone->geometry.tokens);
    EXPECT_EQ(plan->parts, alone->geometry.tiles);
    const FieldRows& rows = (*chain)->rows();
    const model::MediaLayout layout{"image", rows.element, rows.shape};
    EXPECT_EQ(plan->shape.rows * layout.row_bytes(), plan->size_bytes) << text;
    std::vector<uint8_t> out(plan->size_bytes);
    const Status made = (*chain)->run(bytes, *header, 7, out);
    ASSERT_TRUE(made.ok()) << made.message();
    EXPECT_EQ(out, alone->bytes) << text;
  }
}

TEST(FieldChain, AnotherHeaderThanPromisedIsRefused) {
  const std::string bytes = png_of(photo(48, 64, 5));
  const auto chain = kind_of_media(MediaKind::kImage).prepare("resize width=8 height=8").value();
  std::vector<uint8_t> out(8 * 8 * 3);
  EXPECT_TRUE(chain->run(bytes, {48, 64, 1}, 0, out).ok());
  for (const HeaderValues promised : {HeaderValues{47, 64, 1}, {48, 65, 1}, {48, 64, 6}}) {
    const Status status = chain->run(bytes, promised, 0, out);
    EXPECT_EQ(status.code(), Code::kBadData);
    EXPECT_NE(status.message().find("index promises"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("48x64"), std::string::npos) << status.message();
  }
}

TEST(FieldChain, LimitsAndStepsRefuseBeforeDecoding) {
  const auto chain = kind_of_media(MediaKind::kImage)
                         .prepare("decode max_pixels=4000; centre_crop width=32 height=32; planes")
                         .value();
  EXPECT_TRUE(chain->planned({50, 50, 1}, 1000).ok());
  EXPECT_FALSE(chain->planned({100, 50, 1}, 1000).ok());  // pixels
  EXPECT_FALSE(chain->planned({100, 20, 1}, 1000).ok());  // too small for the crop
}

}  // namespace
}  // namespace overlord::media
