#include "overlord/media/image/chain_rows.h"

#include <gtest/gtest.h>

namespace overlord::media {
namespace {

Result<FieldRows> rows_of(const char* text) {
  OVERLORD_TRY(const ImageChain chain, parse_chain(text));
  return chain_rows(chain);
}

TEST(ChainRows, ArePatchesOrPicturesOfOneSize) {
  const auto patches = rows_of("smart_resize factor=28; normalise; patchify layout=qwen2vl");
  ASSERT_TRUE(patches.ok()) << patches.status().message();
  EXPECT_EQ(patches->shape, (std::vector<uint32_t>{3 * 2 * 14 * 14}));
  EXPECT_EQ(patches->element, model::Element::kF32);
  EXPECT_TRUE(patches->has_units && patches->tells_tokens);
  const auto planes = rows_of("resize_short side=40; centre_crop width=30 height=20; planes");
  ASSERT_TRUE(planes.ok());
  EXPECT_EQ(planes->shape, (std::vector<uint32_t>{3, 20, 30}));
  EXPECT_EQ(planes->element, model::Element::kU8);
  EXPECT_FALSE(planes->has_units || planes->tells_tokens);
  const auto tiles = rows_of("tile size=48; grey");
  ASSERT_TRUE(tiles.ok());
  EXPECT_EQ(tiles->shape, (std::vector<uint32_t>{48, 48, 1}));
}

// What is said of the chain is what comes out of it, whatever goes in.
TEST(ChainRows, AreThoseOfTheGeometry) {
  for (const char* text :
       {"resize width=32 height=48", "aspect_bucket buckets=32x16", "tile size=16 most=4",
        "random_resized_crop width=8 height=8; grey; planes; normalise",
        "orient; patchify layout=vit patch=8"}) {
    const auto rows = rows_of(text);
    ASSERT_TRUE(rows.ok()) << text << ": " << rows.status().message();
    const auto chain = PreparedImageChain::prepare(*parse_chain(text));
    ASSERT_TRUE(chain.ok()) << chain.status().message();
    uint64_t values = 1;
    for (const uint32_t side : rows->shape) values *= side;
    for (const auto& [width, height] : {std::pair{64, 48}, {32, 320}, {160, 96}}) {
      ImageHeader header;
      header.width = width;
      header.height = height;
      const auto geometry = chain->planned_size(header);
      ASSERT_TRUE(geometry.ok()) << geometry.status().message();
      EXPECT_EQ(geometry->floats, rows->element == model::Element::kF32);
      EXPECT_EQ(static_cast<uint64_t>(geometry->values()) % values, 0u) << text;
      const int64_t count = rows->has_units ? geometry->patches : geometry->tiles;
      EXPECT_EQ(static_cast<uint64_t>(geometry->values()) / values, static_cast<uint64_t>(count));
    }
  }
}

TEST(ChainRows, PicturesOfManySizesAreRefused) {
  for (const char* text : {"orient", "resize_short side=8", "aspect_bucket buckets=8x8,16x8",
                           "resize width=8 height=8; smart_resize factor=8"}) {
    const auto rows = rows_of(text);
    ASSERT_FALSE(rows.ok()) << text;
    EXPECT_NE(rows.status().message().find("different sizes"), std::string::npos);
  }
}

}  // namespace
}  // namespace overlord::media
