#include "overlord/roles/loader/meta_window.h"

#include <gtest/gtest.h>

#include "overlord/columnar/encoded_rows.h"

namespace overlord::loader {
namespace {

// Six rows in two blocks; row 4 has metadata that is none, which only the index knows.
class Metadata : public ::testing::Test {
 protected:
  Metadata() {
    open_.spec.name = "web";
    open_.spec.eod = 9;
    open_.spec.metadata_columns = {"flag", "patches"};
    open_.manifest.shards.push_back({"mem:/a", {}, 0, 6});
    open_.manifest.blocks = blocks_;
    open_.manifest.columns = {std::span<const uint32_t>(flags_),
                              std::span<const uint32_t>(patches_)};
    open_.manifest.rows = 6;
    open_.bad_rows = {{4, "row 4 is bad"}};
    columnar::TokenBlock first, second;
    first.counts = {10, 11, 12};
    second.counts = {13, 14, model::kBadRow};
    second.bad = {{2, "row 5 is bad"}};
    read_[0] = std::make_shared<const columnar::TokenBlock>(first);
    read_[1] = std::make_shared<const columnar::TokenBlock>(second);
  }
  model::MetaWindow from_blocks() const {
    return window_from_blocks(open_, {2, 1, 100}, rows_, read_, {});
  }
  model::MetaWindow from_index() {
    open_.manifest.lengths = lengths_;
    return window_from_index(open_, {2, 1, 100}, rows_);
  }

  std::vector<model::BlockEntry> blocks_{{0, 3, 0, 0, 1}, {3, 3, 0, 1, 1}};
  std::vector<uint32_t> lengths_{10, 11, 12, 13, model::kBadRow, model::kBadRow};
  std::vector<uint32_t> flags_{1, 0, 1, 0, 0, 0};
  std::vector<uint32_t> patches_{0, 50, 100, 150, 0, 0};
  std::vector<plan::RowRef> rows_{{1, 2}, {0, 2}, {1, 0}, {0, 0}, {1, 1}, {0, 1}};
  std::map<uint32_t, TokenBlockPtr> read_;
  OpenSource open_;
};

TEST_F(Metadata, ComesFromTheIndexInTheOrderOfTheWindow) {
  for (const model::MetaWindow& window : {from_blocks(), from_index()}) {
    ASSERT_EQ(window.columns.size(), 2u);
    EXPECT_EQ(window.columns[0].name, "flag");
    EXPECT_EQ(window.columns[1].values, (std::vector<int64_t>{0, 100, 150, 0, 0, 50}));
    EXPECT_EQ(window.tokens, (std::vector<uint32_t>{0, 13, 14, 11, 0, 12}));
    ASSERT_EQ(window.bad.size(), 2u);
    EXPECT_EQ(window.bad[1].index, 4u);
    EXPECT_EQ(window.bad[1].reason, "row 4 is bad");
  }
}

TEST_F(Metadata, PartsHaveEveryRowOnceAndBadOnesToo) {
  std::vector<int> seen(6, 0), bad(6, 0);
  const auto count = [&](const model::MetaWindow& window) {
    for (size_t i = 0; i < 6; ++i) seen[i] += window.tokens[i] != model::kPassedOver;
    for (const model::BadRow& row : window.bad) ++bad[row.index];
  };
  const std::pair<uint32_t, uint32_t> ranges[] = {{0, 49}, {50, 99}, {100, 0xffffffffu}};
  for (const auto& [least, most] : ranges) {
    open_.spec.filter = {"patches", least, most};
    count(from_blocks());
    const model::MetaWindow indexed = from_index();
    EXPECT_EQ(indexed.tokens, from_blocks().tokens);
  }
  EXPECT_EQ(seen, std::vector<int>(6, 1));
  EXPECT_EQ(bad, (std::vector<int>{1, 0, 0, 0, 1, 0}));
}

}  // namespace
}  // namespace overlord::loader
