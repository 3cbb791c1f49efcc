#include "overlord/plan/select/source_order.h"

#include <gtest/gtest.h>

#include <set>

#include "overlord/base/rng.h"

namespace overlord::plan {
namespace {

using model::BlockEntry;
using model::Shuffle;

std::vector<BlockEntry> blocks_of(const std::vector<uint32_t>& row_counts) {
  std::vector<BlockEntry> blocks;
  uint64_t first_row = 0;
  for (uint32_t rows : row_counts) {
    blocks.push_back({first_row, rows, 0, 0, 0});
    first_row += rows;
  }
  return blocks;
}

std::vector<RowRef> whole_order(const SourceOrder& order) {
  std::vector<RowRef> all;
  std::vector<RowRef> part;
  for (uint64_t window = 0; window < order.windows(); ++window) {
    order.expand(window, &part);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

TEST(SourceOrder, WithoutShuffleItIsTheFileOrder) {
  const auto blocks = blocks_of({3, 1, 2});
  const SourceOrder order(blocks, Shuffle::kNone, 4, 99);
  EXPECT_EQ(order.windows(), 2u);  // mean block 2 rows: two blocks to a window
  EXPECT_EQ(whole_order(order),
            (std::vector<RowRef>{{0, 0}, {0, 1}, {0, 2}, {1, 0}, {2, 0}, {2, 1}}));
}

TEST(SourceOrder, WindowsHoldEnoughBlocks) {
  const auto blocks = blocks_of(std::vector<uint32_t>(100, 10));
  EXPECT_EQ(SourceOrder(blocks, Shuffle::kWindow, 10, 1).windows(), 100u);
  EXPECT_EQ(SourceOrder(blocks, Shuffle::kWindow, 11, 1).windows(), 50u);
  EXPECT_EQ(SourceOrder(blocks, Shuffle::kWindow, 0, 1).windows(), 100u);
  EXPECT_EQ(SourceOrder(blocks, Shuffle::kWindow, 1'000'000, 1).windows(), 1u);
  EXPECT_EQ(SourceOrder(blocks, Shuffle::kFull, 64, 1).windows(), 16u);
}

TEST(SourceOrder, RowsStayInsideTheirWindowsBlocks) {
  const auto blocks = blocks_of(std::vector<uint32_t>(64, 16));
  const SourceOrder order(blocks, Shuffle::kWindow, 64, 5);
  std::set<uint32_t> seen;
  for (uint64_t window = 0; window < order.windows(); ++window) {
    std::vector<RowRef> rows;
    order.expand(window, &rows);
    std::set<uint32_t> here;
    for (const RowRef& row : rows) here.insert(row.block);
    EXPECT_EQ(here.size(), 4u);
    for (uint32_t block : here) EXPECT_TRUE(seen.insert(block).second);
  }
  EXPECT_EQ(seen.size(), 64u);
}

TEST(SourceOrder, FullShuffleMixesAllBlocksIntoEveryWindow) {
  const auto blocks = blocks_of(std::vector<uint32_t>(8, 1000));
  const SourceOrder order(blocks, Shuffle::kFull, 500, 5);
  std::vector<RowRef> rows;
  order.expand(0, &rows);
  std::set<uint32_t> here;
  for (const RowRef& row : rows) here.insert(row.block);
  EXPECT_EQ(here.size(), 8u);
}

TEST(SourceOrder, PassesAndSourcesDiffer) {
  const auto blocks = blocks_of(std::vector<uint32_t>(50, 20));
  for (Shuffle shuffle : {Shuffle::kWindow, Shuffle::kFull}) {
    std::set<std::vector<std::pair<uint32_t, uint32_t>>> orders;
    for (const char* name : {"web", "code"}) {
      for (uint32_t pass = 0; pass < 3; ++pass) {
        const SourceOrder order(blocks, shuffle, 100, order_key(7, name, pass));
        std::vector<std::pair<uint32_t, uint32_t>> rows;
        for (const RowRef& row : whole_order(order)) rows.emplace_back(row.block, row.row);
        EXPECT_TRUE(orders.insert(rows).second) << name << " pass " << pass;
      }
    }
  }
  EXPECT_NE(order_key(7, "web", 0), order_key(8, "web", 0));
}

TEST(SourceOrder, NeverChanges) {
  // Golden: a change here changes the stream of every user.
  const auto blocks = blocks_of({2, 3, 1, 2});
  const SourceOrder windowed(blocks, Shuffle::kWindow, 3, order_key(7, "web", 1));
  EXPECT_EQ(whole_order(windowed),
            (std::vector<RowRef>{{1, 1}, {0, 0}, {1, 0}, {0, 1}, {1, 2}, {3, 1}, {2, 0}, {3, 0}}));
  const SourceOrder full(blocks, Shuffle::kFull, 3, order_key(7, "web", 1));
  EXPECT_EQ(whole_order(full),
            (std::vector<RowRef>{{1, 0}, {1, 2}, {2, 0}, {3, 1}, {3, 0}, {0, 1}, {1, 1}, {0, 0}}));
}

// Two shards of 9 and 6 rows, in blocks that cut groups of 2.
struct CutGroups {
  std::vector<BlockEntry> blocks = {
      {0, 3, 0, 0, 0}, {3, 6, 0, 0, 0}, {9, 1, 1, 0, 0}, {10, 5, 1, 0, 0}};
  std::vector<uint32_t> values = {7, 7, 7, 7, 1, 1, 2, 3, 3, 3, 3, 3, 4, 4, 4};
  model::Source source;
  model::SourceManifest manifest;

  CutGroups() {
    source.name = "pairs";
    source.window_rows = 4;
    source.metadata_columns = {"prompt"};
    manifest.rows = 15;
    manifest.blocks = blocks;
    manifest.shards = {{"a", {100, 0, 11}, 0, 9}, {"b", {60, 0, 12}, 9, 6}};
    manifest.columns = {values};
  }
  CutGroups(const CutGroups&) = delete;
};

TEST(SourceOrder, GroupsKeepTheirRowsTogether) {
  CutGroups cut;
  for (const bool by_column : {false, true}) {
    cut.source.groups = by_column ? model::RowGroups{0, "prompt"} : model::RowGroups{2, ""};
    const GroupedRows groups(cut.source, cut.manifest);
    for (const Shuffle shuffle : {Shuffle::kNone, Shuffle::kWindow}) {
      cut.source.shuffle = shuffle;
      std::set<uint64_t> seen;
      bool moved = false;
      for (uint32_t pass = 0; pass < 8; ++pass) {
        const SourceOrder order = make_order(cut.source, cut.manifest, 5, pass);
        seen.clear();
        for (uint64_t window = 0; window < order.windows(); ++window) {
          std::vector<RowRef> rows;
          order.expand(window, &rows);
          EXPECT_EQ(rows.size(), order.window(window).rows);
          for (size_t i = 0; i < rows.size(); ++i) {
            ASSERT_LT(rows[i].row, cut.blocks[rows[i].block].rows);
            const uint64_t row = cut.blocks[rows[i].block].first_row + rows[i].row;
            EXPECT_TRUE(seen.insert(row).second);
            moved = moved || row + 1 != seen.size();
            if (!groups.joins(groups.shard_of(rows[i].block), row)) continue;
            ASSERT_GT(i, 0u) << "a window begins with a group";
            EXPECT_EQ(cut.blocks[rows[i - 1].block].first_row + rows[i - 1].row, row - 1);
          }
        }
        EXPECT_EQ(seen.size(), 15u);
      }
      EXPECT_EQ(moved, shuffle == Shuffle::kWindow);
    }
  }
  cut.source.groups = {0, "prompt"};
  EXPECT_EQ(GroupedRows(cut.source, cut.manifest).leader(cut.manifest.shards[0], 3), 0u);
  EXPECT_EQ(GroupedRows(cut.source, cut.manifest).leader(cut.manifest.shards[1], 10), 9u);
}

TEST(GroupedRows, APlaceInTheDivisionFollowsFromTheShardAlone) {
  const model::ShardEntry shard{"a", {100, 0, 11}, 0, 10'000};
  model::ShardEntry later = shard;  // behind others, under another name, touched
  later.uri = "b";
  later.fingerprint.modified_ns = 99;
  later.first_row = 700;
  uint64_t low = 0;
  for (uint64_t row = 0; row < 10'000; ++row) {
    const uint32_t place = place_in_division(shard, row);
    EXPECT_EQ(place_in_division(later, row + 700), place);
    low += place < (1u << 30);
  }
  EXPECT_NEAR(static_cast<double>(low), 2500.0, 130.0);  // three deviations
  later.fingerprint.content = 12;
  EXPECT_NE(place_in_division(later, 701), place_in_division(shard, 1));
}

TEST(SourceOrder, AnEmptySourceHasNoWindows) {
  const auto blocks = blocks_of({0, 0, 0});
  for (Shuffle shuffle : {Shuffle::kNone, Shuffle::kWindow, Shuffle::kFull}) {
    EXPECT_EQ(SourceOrder({}, shuffle, 10, 1).windows(), 0u);
    EXPECT_EQ(SourceOrder(blocks, shuffle, 10, 1).windows(), 0u);
    EXPECT_EQ(SourceOrder(blocks, shuffle, 10, 1).rows(), 0u);
  }
}

TEST(SourceOrder, KeepsFewBytesPerBlock) {
  const auto blocks = blocks_of(std::vector<uint32_t>(100'000, 3));
  for (Shuffle shuffle : {Shuffle::kNone, Shuffle::kWindow, Shuffle::kFull}) {
    for (uint32_t window_rows : {1u, 3u, 100u, 2048u}) {
      const SourceOrder order(blocks, shuffle, window_rows, 1);
      EXPECT_LE(order.memory_bytes(), 100'000 / 64 * 8 + 512);
    }
  }
}

// A random table: even, uneven, with empty blocks, with one block, with one row.
std::vector<uint32_t> random_row_counts(uint64_t trial) {
  const uint64_t key = derive_key(2024, "row counts", trial);
  const uint64_t count = 1 + uniform_below(key, 0, 0, trial % 5 == 0 ? 3 : 400);
  const uint64_t most = 1 + uniform_below(key, 0, 1, trial % 3 == 0 ? 2 : 60);
  std::vector<uint32_t> rows(count);
  for (uint64_t i = 0; i < count; ++i) {
    rows[i] = static_cast<uint32_t>(uniform_below(key, i, 2, most + 1));
    if (trial % 7 == 0 && i % 2 == 0) rows[i] = 0;
  }
  return rows;
}

// Each row exactly once, in the window that window_of says, at the position that window() says.
void expect_bijection(const SourceOrder& order, const std::vector<BlockEntry>& blocks) {
  std::set<std::pair<uint32_t, uint32_t>> seen;
  uint64_t position = 0;
  std::vector<RowRef> rows;
  for (uint64_t index = 0; index < order.windows(); ++index) {
    const OrderWindow window = order.window(index);
    ASSERT_EQ(window.first_position, position);
    order.expand(index, &rows);
    ASSERT_EQ(rows.size(), window.rows);
    for (const RowRef& row : rows) {
      ASSERT_LT(row.block, blocks.size());
      ASSERT_LT(row.row, blocks[row.block].rows);
      ASSERT_TRUE(seen.insert({row.block, row.row}).second);
      ASSERT_EQ(order.window_of(position), index);
      ++position;
    }
  }
  ASSERT_EQ(position, order.rows());
  ASSERT_EQ(seen.size(), order.rows());
}

TEST(SourceOrderProperty, EveryPassIsABijection) {
  for (uint64_t trial = 0; trial < 120; ++trial) {
    const auto blocks = blocks_of(random_row_counts(trial));
    const auto window_rows = static_cast<uint32_t>(1 + uniform_below(trial, 1, 0, 300));
    for (Shuffle shuffle : {Shuffle::kNone, Shuffle::kWindow, Shuffle::kFull}) {
      SCOPED_TRACE(testing::Message() << "trial " << trial << " shuffle " << int(shuffle));
      const SourceOrder order(blocks, shuffle, window_rows, order_key(trial, "s", 0));
      expect_bijection(order, blocks);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(SourceOrderProperty, SeekingEqualsScanning) {
  for (uint64_t trial = 0; trial < 40; ++trial) {
    const auto blocks = blocks_of(random_row_counts(trial));
    for (Shuffle shuffle : {Shuffle::kNone, Shuffle::kWindow, Shuffle::kFull}) {
      const SourceOrder order(blocks, shuffle, 50, order_key(trial, "s", 1));
      if (order.rows() == 0) continue;
      const auto scanned = whole_order(order);
      for (uint64_t draw = 0; draw < 50; ++draw) {
        const uint64_t position = uniform_below(trial, draw, 9, order.rows());
        const SourceOrder fresh(blocks, shuffle, 50, order_key(trial, "s", 1));
        const uint64_t window = fresh.window_of(position);
        std::vector<RowRef> rows;
        fresh.expand(window, &rows);
        ASSERT_EQ(rows[position - fresh.window(window).first_position], scanned[position]);
      }
    }
  }
}

}  // namespace
}  // namespace overlord::plan
