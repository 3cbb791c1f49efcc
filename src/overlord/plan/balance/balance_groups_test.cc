#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "overlord/base/rng.h"
#include "overlord/plan/balance/balance.h"

namespace overlord::plan {
namespace {

std::vector<int64_t> made_up(uint64_t key, size_t count, int64_t most) {
  std::vector<int64_t> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = 1 + static_cast<int64_t>(uniform_below(key, i, 0, static_cast<uint64_t>(most)));
  }
  return values;
}

TEST(BalanceGroups, DealsInArrivalOrderByWidth) {
  const auto costs = made_up(1, 1000, 100);
  for (const uint32_t bins : {7u, 8u, 10u, 33u}) {
    for (uint32_t width = 1; width < bins; ++width) {
      const auto out =
          Balancer().run_in_groups(BalanceMethod::kLptSearch, {costs, {}, bins}, width);
      ASSERT_TRUE(out.ok());
      // Every beginning of the stream is shared out by width, as nearly as one atom allows.
      std::vector<double> dealt((bins + width - 1) / width);
      for (uint32_t atom = 0; atom < costs.size(); ++atom) {
        ++dealt[out->bin_of[atom] / width];
        for (uint32_t g = 0; g < dealt.size(); ++g) {
          const double wide = std::min(width, bins - g * width);
          ASSERT_GE(dealt[g], std::floor((atom + 1) * wide / bins) - 1e-9) << g;
          ASSERT_LE(dealt[g], wide * std::ceil((atom + 1.0) / bins)) << g;
        }
      }
    }
  }
}

TEST(BalanceGroups, CountsStayEqualOverAllBins) {
  for (const uint32_t bins : {5u, 8u, 13u}) {
    for (size_t atoms = 0; atoms < 40; ++atoms) {
      const auto costs = made_up(derive_key(2, "groups", atoms), atoms, 50);
      for (uint32_t width = 1; width <= bins; ++width) {
        BalanceProblem problem{costs, {}, bins};
        problem.equal_count = true;
        const auto out = Balancer().run_in_groups(BalanceMethod::kLpt, problem, width);
        ASSERT_TRUE(out.ok());
        ASSERT_TRUE(out->left.empty());
        std::vector<uint32_t> counts(bins);
        for (const uint32_t bin : out->bin_of) ++counts[bin];
        const auto [few, many] = std::minmax_element(counts.begin(), counts.end());
        ASSERT_LE(*many - *few, 1u) << bins << " " << atoms << " " << width;
      }
    }
  }
}

TEST(BalanceGroups, EndsOfTheScale) {
  const auto costs = made_up(3, 100, 1000);
  const BalanceProblem problem{costs, {}, 8};
  Balancer balancer;
  const auto plain = balancer.run(BalanceMethod::kLptSearch, problem);
  for (const uint32_t width : {0u, 8u, 99u}) {
    EXPECT_EQ(balancer.run_in_groups(BalanceMethod::kLptSearch, problem, width)->bin_of,
              plain->bin_of);
  }
  const auto alone = balancer.run_in_groups(BalanceMethod::kLptSearch, problem, 1);
  EXPECT_EQ(alone->bin_of, balancer.run(BalanceMethod::kArrival, problem)->bin_of);
  EXPECT_EQ(alone->lower_bound, alone->max_load);  // nothing can be better in groups of one
  const auto pairs = balancer.run_in_groups(BalanceMethod::kLptSearch, problem, 2);
  EXPECT_GE(pairs->max_load, plain->max_load);
  EXPECT_LE(pairs->max_load, alone->max_load);
  EXPECT_LE(pairs->lower_bound, pairs->max_load);
  EXPECT_FALSE(balancer.run_in_groups(BalanceMethod::kLpt, {costs, {}, 0}, 0).ok());
}

TEST(BalanceGroups, AddsUpAndUsesRoomElsewhere) {
  // Two large atoms are dealt to the first group, which has room for one.
  const std::vector<int64_t> costs = {9, 1, 9, 1};
  const std::vector<int64_t> sizes = {9, 1, 9, 1};
  const BalanceProblem problem{costs, sizes, 2, 10};
  const auto out = Balancer().run_in_groups(BalanceMethod::kLptSearch, problem, 1);
  ASSERT_TRUE(out.ok());
  EXPECT_TRUE(out->left.empty() || out->total == 11);
  int64_t total = 0;
  std::vector<int64_t> loads(2);
  for (uint32_t atom = 0; atom < costs.size(); ++atom) {
    if (out->bin_of[atom] == kNoBin) continue;
    total += costs[atom];
    loads[out->bin_of[atom]] += costs[atom];
  }
  EXPECT_EQ(total, out->total);
  EXPECT_EQ(*std::max_element(loads.begin(), loads.end()), out->max_load);
  EXPECT_EQ(*std::min_element(loads.begin(), loads.end()), out->min_load);
  const std::vector<int64_t> small = {9, 1, 1, 1};
  const auto moved = Balancer().run_in_groups(BalanceMethod::kLptSearch, {small, sizes, 2, 11}, 1);
  EXPECT_TRUE(moved->left.empty());
}

}  // namespace
}  // namespace overlord::plan
