#include "overlord/plan/select/packing.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>

#include "overlord/base/rng.h"
#include "overlord/plan/place/made_up_job_test.h"

namespace overlord::plan {
namespace {

TEST(CountTargets, UnmaskedIsEveryTokenWithASuccessor) {
  EXPECT_EQ(count_targets({{}, 0, 10, 10}, {}), 9u);   // a whole document
  EXPECT_EQ(count_targets({{}, 0, 10, 25}, {}), 10u);  // the next token is the last target
  EXPECT_EQ(count_targets({{}, 20, 5, 25}, {}), 4u);
  EXPECT_EQ(count_targets({{}, 0, 1, 1}, {}), 0u);
  EXPECT_EQ(count_targets({{}, 24, 1, 25}, {}), 0u);
}

TEST(CountTargets, MaskedEqualsCountingByHand) {
  for (uint64_t trial = 0; trial < 500; ++trial) {
    const uint64_t key = derive_key(3, "targets", trial);
    const auto tokens = static_cast<uint32_t>(1 + uniform_below(key, 0, 0, 60));
    std::vector<model::LossSpan> spans;
    std::vector<bool> carries(tokens);
    for (uint32_t at = 0; at < tokens;) {
      const auto gap = static_cast<uint32_t>(uniform_below(key, at, 1, 9));
      const auto count = static_cast<uint32_t>(uniform_below(key, at, 2, 9));
      const uint32_t first = at + gap;
      if (count > 0) spans.push_back({first, count});  // may reach past a truncated document
      for (uint32_t t = first; t < std::min(first + count, tokens); ++t) carries[t] = true;
      at = first + count + 1;
    }
    for (uint32_t first = 0; first < tokens; ++first) {
      for (uint32_t count = 1; first + count <= tokens; ++count) {
        uint32_t expected = 0;
        for (uint32_t i = first; i < first + count; ++i)
          expected += i + 1 < tokens && carries[i + 1];
        ASSERT_EQ(count_targets({{}, first, count, tokens, 0}, spans), expected);
      }
    }
  }
}

TEST(LengthIndex, EqualsASortedMapOfQueues) {
  for (uint32_t longest : {1u, 2u, 63u, 64u, 65u, 4096u, 5000u, 300'000u}) {
    const uint64_t key = derive_key(8, "index", longest);
    LengthIndex index;
    index.reset(longest);
    std::map<uint32_t, std::deque<uint32_t>> model;
    const auto pop = [&model](auto it) {
      const uint32_t item = it->second.front();
      it->second.pop_front();
      if (it->second.empty()) model.erase(it);
      return item;
    };
    for (uint32_t turn = 0; turn < 4000; ++turn) {
      const auto length = static_cast<uint32_t>(1 + uniform_below(key, turn, 0, longest));
      const uint64_t action = uniform_below(key, turn, 1, 4);
      if (action < 2) {
        index.push(length, turn);
        model[length].push_back(turn);
      } else if (action == 2) {
        const auto it = model.upper_bound(length);
        ASSERT_EQ(index.pop_at_most(length), it == model.begin() ? kNoItem : pop(std::prev(it)));
      } else {
        const auto it = model.lower_bound(length);
        ASSERT_EQ(index.pop_at_least(length), it == model.end() ? kNoItem : pop(it));
      }
    }
    EXPECT_EQ(index.pop_at_most(0), kNoItem);
    EXPECT_EQ(index.pop_at_least(longest + 1), kNoItem);
    index.reset(longest);
    EXPECT_EQ(index.pop_at_most(longest), kNoItem);
  }
}

Piece document(uint64_t position, uint32_t tokens) { return {{0, 0, position}, 0, tokens, tokens}; }

// Lengths of each bin's segments.
std::vector<std::vector<uint32_t>> bins_of(const BinWriter& writer) {
  std::vector<std::vector<uint32_t>> bins;
  uint32_t at = 0;
  for (uint32_t end : writer.bin_ends) {
    bins.emplace_back();
    for (; at < end; ++at) bins.back().push_back(writer.segments[at].count);
  }
  return bins;
}

using Bins = std::vector<std::vector<uint32_t>>;

TEST(BestFitPool, FillsEachBinWithTheLargestThatFits) {
  BestFitPool pool;
  BinWriter writer;
  writer.reset(1, 2);
  pool.reset(100, 1);
  uint64_t position = 0;
  for (uint32_t tokens : {30, 60, 10, 60, 40, 5}) pool.add(document(position++, tokens));
  EXPECT_EQ(pool.waiting_tokens(), 205u);
  pool.open_bins(2);
  pool.fill_bins(&writer);
  EXPECT_EQ(bins_of(writer), (Bins{{60, 40}, {60, 30, 10}}));
  EXPECT_EQ(writer.segments[0].id.position, 1u);  // of two equal ones the older
  EXPECT_EQ(pool.waiting_tokens(), 5u);
  EXPECT_EQ(writer.tokens, 200u);
  EXPECT_EQ(writer.targets, 195u);
}

TEST(BestFitPool, ForcedPiecesGoFirst) {
  BestFitPool pool;
  BinWriter writer;
  writer.reset(1, 2);
  pool.reset(100, 1);
  pool.add_forced(document(0, 10));
  pool.add_forced(document(1, 70));
  pool.add_forced(document(2, 25));
  pool.add(document(3, 100));
  pool.add(document(4, 20));
  pool.open_bins(2);
  pool.place_forced();
  pool.fill_bins(&writer);
  EXPECT_EQ(bins_of(writer), (Bins{{70, 25}, {10, 20}}));
}

TEST(BestFitPool, CountsPaddedLengths) {
  BestFitPool pool;
  BinWriter writer;
  writer.reset(1, 1);
  pool.reset(64, 16);
  for (uint32_t tokens : {17, 17, 1}) pool.add(document(tokens, tokens));
  EXPECT_EQ(pool.waiting_tokens(), 32u + 32u + 16u);
  pool.open_bins(1);
  pool.fill_bins(&writer);
  EXPECT_EQ(bins_of(writer), (Bins{{17, 17}}));
  EXPECT_EQ(pool.waiting_tokens(), 16u);
}

TEST(BestFitPool, PlaceSaysWhenNothingTakesIt) {
  BestFitPool pool;
  BinWriter writer;
  writer.reset(1, 2);
  pool.reset(100, 1);
  pool.open_bins(2);
  EXPECT_TRUE(pool.place(document(0, 60)));
  EXPECT_TRUE(pool.place(document(1, 50)));
  EXPECT_TRUE(pool.place(document(2, 40)));
  EXPECT_FALSE(pool.place(document(3, 51)));
  EXPECT_TRUE(pool.place(document(4, 50)));
  EXPECT_FALSE(pool.place(document(5, 1)));
  pool.fill_bins(&writer);
  EXPECT_EQ(bins_of(writer), (Bins{{60, 40}, {50, 50}}));
  EXPECT_EQ(pool.waiting_tokens(), 0u);
}

// Lemma (1) of selection.cc on sets that press against it.
TEST(BestFitPoolProperty, ForcedPiecesUpToHalfTheBinsAlwaysFit) {
  for (uint64_t trial = 0; trial < 3000; ++trial) {
    const uint64_t key = derive_key(4, "forced", trial);
    const auto bins = static_cast<uint32_t>(1 + uniform_below(key, 0, 0, 6));
    constexpr uint32_t kContext = 60;
    const uint64_t room = (bins + 1) * kContext / 2;
    BestFitPool pool;
    BinWriter writer;
    writer.reset(1, bins);
    pool.reset(kContext, 1);
    uint64_t total = 0;
    for (uint64_t i = 0; total < room; ++i) {
      const uint64_t longest = trial % 3 == 0 ? kContext : trial % 3 == 1 ? kContext / 2 + 1 : 25;
      auto tokens = static_cast<uint32_t>(1 + uniform_below(key, i, 1, longest));
      if (trial % 5 == 0) tokens = kContext / 2 + 1;
      tokens = static_cast<uint32_t>(std::min<uint64_t>(tokens, room - total));
      pool.add_forced(document(i, tokens));
      total += tokens;
    }
    pool.open_bins(bins);
    pool.place_forced();
    pool.fill_bins(&writer);
    ASSERT_EQ(pool.waiting_tokens(), 0u) << "trial " << trial;
    ASSERT_EQ(writer.tokens, room);
  }
}

}  // namespace
}  // namespace overlord::plan
