#include "overlord/batch/media_slabs.h"

#include <gtest/gtest.h>

#include <string>

namespace overlord::batch {
namespace {

Piece piece(uint32_t row, uint32_t count) {
  Piece out;
  out.row = row;
  out.segment.count = count;
  return out;
}

TEST(MediaPlaces, DocumentsStartWhereTheBoundariesSay) {
  AssembleSpec spec;
  spec.context = 16;
  spec.rows = 4;
  spec.align = 4;
  const std::vector<Piece> pieces = {piece(0, 3), piece(0, 5), piece(2, 1), piece(3, 16)};
  EXPECT_EQ(document_starts(spec, pieces), (std::vector<uint32_t>{0, 4, 32, 48}));
  model::MicrobatchCore core;
  fill_core(spec, pieces, &core);
  EXPECT_EQ(core.boundaries.cu_seqlens_padded, (std::vector<int32_t>{0, 4, 16, 32, 48, 64}));
}

class MediaSlabs : public ::testing::Test {
 protected:
  model::MediaPiece piece_of(uint32_t field, uint32_t rows, const std::string& bytes) {
    model::MediaPiece out;
    out.field = field;
    out.first = 1;
    out.tokens = rows;
    out.shape = {rows, 1, 1, rows};
    out.data = {bytes.data(), bytes.size()};
    return out;
  }
  const std::string ab_ = "aabb", c_ = "cc", f_ = "ffff";
  const std::vector<model::MediaLayout> layouts_ = {{"clip", model::Element::kF32, {1}},
                                                    {"image", model::Element::kU8, {2}},
                                                    {"other", model::Element::kU8, {9}}};
  const model::MediaPiece pieces_[3] = {piece_of(1, 2, ab_), piece_of(0, 1, f_),
                                        piece_of(1, 1, c_)};
  const std::vector<PlacedMedia> placed_ = {
      {&pieces_[0], 0, 0}, {&pieces_[1], 2, 20}, {&pieces_[2], 2, 20}};
  std::shared_ptr<runtime::BufferPool> pool_ = runtime::BufferPool::make(0);
};

TEST_F(MediaSlabs, ItemsOfAFieldLieOneBehindTheOther) {
  const auto slabs = fill_media(layouts_, placed_, true, *pool_);
  ASSERT_EQ(slabs.size(), 2u);  // nothing of "other"
  EXPECT_EQ(slabs[0].layout.name, "clip");
  const model::MediaSlab& image = slabs[1];
  EXPECT_EQ(image.rows, 3u);
  EXPECT_EQ(std::string(static_cast<const char*>(image.data.data), image.data.size_bytes),
            "aabbcc");
  ASSERT_EQ(image.items.size(), 2u);
  EXPECT_EQ(image.items[0], (model::MediaItem{0, 1, 2, 0, {2, 1, 1, 2}}));
  EXPECT_EQ(image.items[1], (model::MediaItem{2, 21, 1, 2, {1, 1, 1, 1}}));
}

TEST_F(MediaSlabs, ShapesStayWithoutTheBytes) {
  const auto slabs = fill_media(layouts_, placed_, true, *pool_);
  const auto shapes = without_data(slabs);
  const auto never = fill_media(layouts_, placed_, false, *pool_);
  ASSERT_EQ(shapes.size(), slabs.size());
  for (size_t i = 0; i < slabs.size(); ++i) {
    EXPECT_EQ(shapes[i].items, slabs[i].items);
    EXPECT_EQ(shapes[i].data.data, nullptr);
    EXPECT_EQ(never[i].data.data, nullptr);
  }
  EXPECT_EQ(model::media_digest(shapes), model::media_digest(never));
  EXPECT_NE(model::media_digest(shapes), model::media_digest(slabs));
}

}  // namespace
}  // namespace overlord::batch
