#include "overlord/columnar/token_checks.h"

#include <gtest/gtest.h>

#include <numeric>

namespace overlord::columnar {
namespace {

TokenBlock block_of(const std::vector<int32_t>& values, const std::vector<uint32_t>& counts) {
  TokenBlock block;
  block.values = runtime::Bytes::copy_of(
      std::string(reinterpret_cast<const char*>(values.data()), values.size() * 4));
  uint64_t begin = 0;
  for (const uint32_t count : counts) {
    block.begins.push_back(begin);
    block.counts.push_back(count);
    begin += count;
  }
  return block;
}

std::string name(uint32_t row, std::string_view what) {
  return std::to_string(row) + ":" + std::string(what);
}

TEST(TokenChecks, FindsTheOneBadIdWhereverItIs) {
  std::vector<int32_t> good(1000);
  std::iota(good.begin(), good.end(), 0);
  const std::vector<uint32_t> counts(100, 10);
  for (size_t at = 0; at < good.size(); ++at) {
    for (const int32_t wrong : {1000, -1}) {
      std::vector<int32_t> values = good;
      values[at] = wrong;
      TokenBlock block = block_of(values, counts);
      check_token_ids(1000, name, &block);
      ASSERT_EQ(block.bad.size(), 1u) << at;
      EXPECT_EQ(block.bad[0].index, at / 10);
      EXPECT_EQ(block.counts[at / 10], model::kBadRow);
    }
  }
  TokenBlock block = block_of(good, counts);
  check_token_ids(1000, name, &block);
  EXPECT_TRUE(block.bad.empty());
}

TEST(TokenChecks, WithoutAVocabularyOnlyNegativeIdsAreBad) {
  TokenBlock block = block_of({2147483647, -2147483647}, {1, 1});
  check_token_ids(0, name, &block);
  ASSERT_EQ(block.bad.size(), 1u);
  EXPECT_EQ(block.bad[0].index, 1u);
}

TEST(TokenChecks, BadRowsStaySorted) {
  TokenBlock block = block_of({5, 1, 99, 1}, {1, 1, 1, 1});
  block.counts[1] = model::kBadRow;
  block.bad = {{1, "earlier"}};
  check_token_ids(5, name, &block);
  ASSERT_EQ(block.bad.size(), 3u);
  EXPECT_EQ(block.bad[0].index, 0u);
  EXPECT_EQ(block.bad[1].reason, "earlier");
  EXPECT_EQ(block.bad[2].index, 2u);
}

TEST(TokenChecks, UnwantedRowsLoseCountAndReason) {
  TokenBlock block = block_of({1, 2, 3}, {1, 1, 1});
  block.counts[0] = model::kBadRow;
  block.bad = {{0, "x"}};
  keep_wanted({1}, &block);
  EXPECT_EQ(block.counts, (std::vector<uint32_t>{0, 1, 0}));
  EXPECT_TRUE(block.bad.empty());
}

}  // namespace
}  // namespace overlord::columnar
