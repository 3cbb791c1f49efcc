#include "overlord/plan/select/sample_cutting.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "overlord/base/rng.h"

namespace overlord::plan {
namespace {

struct Made {
  std::vector<model::Segment> segments;
  std::vector<int64_t> costs;
  std::vector<uint32_t> bin_ends;
};

// Sequences of at most 1,024 tokens with long and short samples.
Made make_up(uint64_t seed, uint32_t bins) {
  Made made;
  for (uint32_t bin = 0; bin < bins; ++bin) {
    uint32_t room = 1024;
    for (uint64_t d = 0; room > 0 && d < 12; ++d) {
      const bool is_long = uniform_below(seed, bin, 2 * d, 6) == 0;
      const auto count = static_cast<uint32_t>(
          1 + uniform_below(seed, bin, 2 * d + 1, is_long ? room : std::min(room, 90u)));
      model::Segment segment;
      segment.id = {0, 0, made.segments.size()};
      segment.count = count;
      made.segments.push_back(segment);
      made.costs.push_back(int64_t{count} * count + 64 * int64_t{count});
      room -= count;
    }
    made.bin_ends.push_back(static_cast<uint32_t>(made.segments.size()));
  }
  return made;
}

CutStep cut(const Made& made, const CutShape& shape) {
  Balancer balancer;
  auto step = cut_samples(model::BalanceMethod::kLptSearch, shape, made.segments, made.costs,
                          made.bin_ends, &balancer);
  EXPECT_TRUE(step.ok()) << step.status().message();
  return std::move(*step);
}

TEST(SampleCutting, EverySampleOnceWithinTheLimitAndItsSubstep) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Made made = make_up(seed, 24);
    const CutShape shape{4, 3, 2, 1200, 4, 16, 1};
    const CutStep step = cut(made, shape);
    ASSERT_EQ(step.bin_ends.size(), 4u * step.microbatches);
    EXPECT_EQ(step.microbatches % 2, 0u);
    std::set<uint64_t> seen;
    uint32_t i = 0;
    for (uint32_t bin = 0; bin < step.bin_ends.size(); ++bin) {
      uint32_t length = 0;
      const uint32_t substep = bin % step.microbatches / (step.microbatches / 2);
      for (; i < step.bin_ends[bin]; ++i) {
        EXPECT_TRUE(seen.insert(step.segments[i].id.position).second);
        EXPECT_EQ(step.segments[i].id.position < made.bin_ends[11] ? 0u : 1u, substep);
        length += (step.segments[i].count + 3) / 4 * 4;
      }
      EXPECT_LE(length, 1200u);
      EXPECT_GE(step.capacities[bin], length);
      EXPECT_EQ(step.capacities[bin] % 16, 0u);
      EXPECT_LT(step.capacities[bin] - length, length == 0 ? 17u : 16u);
    }
    EXPECT_EQ(seen.size(), made.segments.size());
  }
}

TEST(SampleCutting, MicrobatchesAreEvenerThanSequences) {
  const Made made = make_up(3, 32);
  const CutStep step = cut(made, {4, 8, 1, 4096, 1, 1, 1});
  const auto most = [](std::span<const int64_t> costs, std::span<const uint32_t> ends) {
    int64_t largest = 0;
    uint32_t i = 0;
    for (const uint32_t end : ends) {
      int64_t sum = 0;
      for (; i < end; ++i) sum += costs[i];
      largest = std::max(largest, sum);
    }
    return largest;
  };
  EXPECT_EQ(step.microbatches, 8u);
  EXPECT_LT(most(step.costs, step.bin_ends), most(made.costs, made.bin_ends));
}

TEST(SampleCutting, WhatDoesNotFitAddsMicrobatches) {
  Made made;
  for (uint32_t i = 0; i < 12; ++i) {
    model::Segment segment;
    segment.id = {0, 0, i};
    segment.count = 600;
    made.segments.push_back(segment);
    made.costs.push_back(600);
    made.bin_ends.push_back(i + 1);
  }
  // Twelve samples of 600, two consumers of three microbatches: one each, so six rounds.
  EXPECT_EQ(cut(made, {2, 3, 1, 1000, 1, 8, 1}).microbatches, 6u);
  // A pipeline of four interleaved stages takes them by fours.
  EXPECT_EQ(cut(made, {2, 4, 1, 1000, 1, 8, 4}).microbatches, 8u);
}

TEST(SampleCutting, ASampleOverTheLimitIsRefused) {
  const Made made = make_up(1, 4);
  Balancer balancer;
  const auto step = cut_samples(model::BalanceMethod::kLpt, {1, 1, 1, 2, 1, 1, 1}, made.segments,
                                made.costs, made.bin_ends, &balancer);
  ASSERT_FALSE(step.ok());
  EXPECT_NE(step.status().message().find("limit of 2"), std::string::npos);
}

}  // namespace
}  // namespace overlord::plan
