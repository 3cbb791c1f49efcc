// The memory limit of microbatches of whole sequences: balanced within it, or in arrival order, or
// an error that names a sample.
#include "overlord/plan/place/memory_limit.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "overlord/base/rng.h"
#include "overlord/plan/cost/cost.h"
#include "overlord/plan/made_up_cost_test.h"
#include "overlord/plan/place/placement.h"

namespace overlord::plan {
namespace {

// One document to a bin, of these lengths; a token takes a byte.
DGraph graph_of(const std::vector<uint32_t>& lengths, GraphShape shape) {
  std::vector<model::Segment> segments;
  std::vector<uint32_t> ends;
  for (const uint32_t length : lengths) {
    model::Segment segment;
    segment.id = {2, 1, segments.size()};
    segment.count = length;
    segments.push_back(segment);
    ends.push_back(static_cast<uint32_t>(segments.size()));
  }
  return DGraph(std::move(segments), std::move(ends), shape);
}

model::Strategy limited(int64_t bytes, model::BalanceLevel level) {
  model::Strategy strategy;
  strategy.has_cost = true;
  strategy.cost = quadratic_cost("tokens", 0, 0, int64_t{1} << 32);
  strategy.balance = model::BalanceMethod::kLptSearch;
  strategy.level = level;
  strategy.memory_limit = bytes;
  return strategy;
}

int64_t most_bytes(const DGraph& graph) {
  return largest_microbatch(*bin_bytes(tokens_cost(), graph), graph).bytes;
}

TEST(MemoryLimit, BalancedMicrobatchesKeepIt) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    std::vector<uint32_t> lengths;
    for (uint64_t i = 0; i < 64; ++i) {
      lengths.push_back(static_cast<uint32_t>(1 + uniform_below(seed, i, 0, 1000)));
    }
    for (const auto level : {model::BalanceLevel::kBin, model::BalanceLevel::kInterleaved,
                             model::BalanceLevel::kBucket}) {
      DGraph arrival = graph_of(lengths, {4, 4, 4});
      deal_in_turn({1, 1}, &arrival);
      const int64_t limit = most_bytes(arrival);  // which arrival order keeps
      DGraph graph = graph_of(lengths, {4, 4, 4});
      const Status status = Placer().place(limited(limit, level), {1, 1}, &graph);
      ASSERT_TRUE(status.ok()) << status.message();
      ASSERT_LE(most_bytes(graph), limit);
      ASSERT_TRUE(graph.read_placements().ok());
    }
  }
}

TEST(MemoryLimit, WithoutItTheSameStepTakesMore) {
  // Squares are even with the long one beside the shortest, 10,003 and 10,000; bytes are not.
  const std::vector<uint32_t> lengths = {100, 1, 1, 1, 50, 50, 50, 50};
  DGraph free = graph_of(lengths, {1, 2, 4});
  ASSERT_TRUE(Placer().place(limited(0, model::BalanceLevel::kInterleaved), {1, 1}, &free).ok());
  DGraph kept = graph_of(lengths, {1, 2, 4});
  const auto strategy = limited(155, model::BalanceLevel::kInterleaved);
  ASSERT_TRUE(Placer().place(strategy, {1, 1}, &kept).ok());
  EXPECT_EQ(most_bytes(free), 200);
  EXPECT_LE(most_bytes(kept), 155);
  const auto report = Placer::report(strategy, {1, 1}, kept);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->memory_max, most_bytes(kept));
}

TEST(MemoryLimit, ArrivalOrderIsTheFallBack) {
  // At level bucket microbatches are filled as bins come. The two of 90 go to one consumer and meet
  // there; in arrival order they do not.
  const std::vector<uint32_t> lengths = {90, 1, 90, 1, 127, 1, 1, 1};
  const auto strategy = limited(130, model::BalanceLevel::kBucket);
  DGraph graph = graph_of(lengths, {2, 2, 2});
  const Status status = Placer().place(strategy, {1, 1}, &graph);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(most_bytes(graph), 128);
  EXPECT_TRUE(Placer::report(strategy, {1, 1}, graph)->arrival_for_memory);
  const auto wide = limited(400, model::BalanceLevel::kBucket);
  DGraph balanced = graph_of(lengths, {2, 2, 2});
  ASSERT_TRUE(Placer().place(wide, {1, 1}, &balanced).ok());
  EXPECT_EQ(most_bytes(balanced), 180) << "the case shows nothing";
  EXPECT_FALSE(Placer::report(wide, {1, 1}, balanced)->arrival_for_memory);
}

TEST(MemoryLimit, WhatCannotFitIsNamed) {
  DGraph graph = graph_of({5, 5, 70, 5}, {2, 2, 1});
  const Status status =
      Placer().place(limited(60, model::BalanceLevel::kInterleaved), {1, 1}, &graph);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("source 2, pass 1, position 2"), std::string::npos)
      << status.message();
  EXPECT_NE(status.message().find("takes 70"), std::string::npos);
}

}  // namespace
}  // namespace overlord::plan
