#include "overlord/plan/select/window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "overlord/base/rng.h"

namespace overlord::plan {
namespace {

using Costs = std::vector<int64_t>;

// Most bins within a factor of two, one in eight up to sixteen times larger, some free.
Costs random_costs(uint64_t key, size_t count) {
  Costs costs;
  for (size_t i = 0; i < count; ++i) {
    const auto base = static_cast<int64_t>(50 + uniform_below(key, i, 0, 50));
    const uint64_t kind = uniform_below(key, i, 1, 32);
    const auto scale = static_cast<int64_t>(1 + uniform_below(key, i, 2, 16));
    costs.push_back(kind == 0 ? 0 : kind < 5 ? base * scale : base);
  }
  return costs;
}

// The sum of step times by the definition, from where the bins are.
int64_t time_of(const Costs& costs, const std::vector<uint32_t>& step_of_bin,
                const WindowShape& shape) {
  const size_t steps = costs.size() / shape.bins_per_step;
  std::vector<int64_t> totals(steps, 0), largest(steps, 0);
  for (size_t i = 0; i < costs.size(); ++i) {
    totals[step_of_bin[i]] += costs[i];
    largest[step_of_bin[i]] = std::max(largest[step_of_bin[i]], costs[i]);
  }
  int64_t sum = 0;
  for (size_t s = 0; s < steps; ++s) {
    sum += std::max((totals[s] + shape.width - 1) / shape.width, largest[s]);
  }
  return sum;
}

std::vector<uint32_t> as_selected(size_t bins, uint32_t bins_per_step) {
  std::vector<uint32_t> steps(bins);
  for (size_t i = 0; i < bins; ++i) steps[i] = static_cast<uint32_t>(i / bins_per_step);
  return steps;
}

// Best of all ways to keep the counts and the cap.
int64_t best_of_all(const Costs& costs, const WindowShape& shape) {
  std::vector<uint32_t> steps = as_selected(costs.size(), shape.bins_per_step);
  int64_t best = std::numeric_limits<int64_t>::max();
  do {
    bool allowed = true;
    for (size_t i = 0; i < steps.size(); ++i) {
      const auto from = static_cast<uint32_t>(i / shape.bins_per_step);
      allowed &= std::max(from, steps[i]) - std::min(from, steps[i]) <= shape.max_delay;
    }
    if (allowed) best = std::min(best, time_of(costs, steps, shape));
  } while (std::next_permutation(steps.begin(), steps.end()));
  return best;
}

TEST(RebalanceWindow, LetsOutliersMeet) {
  // Three steps held up by one bin each; together they hold up one.
  const Costs costs{90, 1, 1, 100, 1, 1, 80, 1, 1};
  const auto window = rebalance_window(costs, {3, 1, 3, 0});
  ASSERT_TRUE(window.ok());
  EXPECT_EQ(window->time_before, 270);
  EXPECT_EQ(window->time_after, 102);
  EXPECT_EQ(window->lower_bound, 102);
  EXPECT_EQ(window->step_of_bin[0], 1u);
  EXPECT_EQ(window->step_of_bin[3], 1u);
  EXPECT_EQ(window->step_of_bin[6], 1u);
  EXPECT_EQ(window->bins_by_shift, (std::vector<uint64_t>{2, 5, 2}));
}

TEST(RebalanceWindow, GivesWorkToTheStepThatIsHeldUp) {
  // The first step waits for a bin of 100 and could do 200 in that time; the second has 300.
  const Costs costs{100, 10, 10, 10, 75, 75, 75, 75};
  const auto window = rebalance_window(costs, {4, 1, 2, 0});
  EXPECT_EQ(window->time_before, 100 + 150);
  EXPECT_EQ(window->time_after, window->lower_bound);
  EXPECT_EQ(window->time_after, 215);
}

TEST(RebalanceWindow, KeepsCountsAndCapAndNeverGetsWorse) {
  for (uint64_t trial = 0; trial < 400; ++trial) {
    const uint64_t key = derive_key(1, "window", trial);
    const auto steps = static_cast<uint32_t>(1 + uniform_below(key, 0, 10, 8));
    WindowShape shape;
    shape.bins_per_step = static_cast<uint32_t>(1 + uniform_below(key, 0, 11, 300));
    shape.max_delay = static_cast<uint32_t>(uniform_below(key, 0, 12, 9));
    shape.width = static_cast<uint32_t>(1 + uniform_below(key, 0, 13, shape.bins_per_step + 10));
    shape.tolerance_permille = trial % 2 == 0 ? 0 : 5;
    const Costs costs = random_costs(key, size_t{steps} * shape.bins_per_step);
    const auto window = rebalance_window(costs, shape);
    ASSERT_TRUE(window.ok());
    ASSERT_EQ(window->step_of_bin.size(), costs.size());
    ASSERT_EQ(window->reach, std::min(shape.max_delay, steps - 1));
    std::vector<uint32_t> counts(steps, 0);
    std::vector<uint64_t> shifts(size_t{2} * window->reach + 1, 0);
    for (size_t i = 0; i < costs.size(); ++i) {
      const auto from = static_cast<int64_t>(i / shape.bins_per_step);
      const int64_t shift = window->step_of_bin[i] - from;
      ASSERT_LE(std::abs(shift), static_cast<int64_t>(window->reach));
      ++shifts[static_cast<size_t>(shift + window->reach)];
      ++counts[window->step_of_bin[i]];
    }
    for (const uint32_t count : counts) ASSERT_EQ(count, shape.bins_per_step);
    ASSERT_EQ(shifts, window->bins_by_shift);
    const auto before = as_selected(costs.size(), shape.bins_per_step);
    ASSERT_EQ(window->time_before, time_of(costs, before, shape));
    ASSERT_EQ(window->time_after, time_of(costs, window->step_of_bin, shape));
    ASSERT_LE(window->time_after, window->time_before);
    ASSERT_GE(window->time_after, window->lower_bound);
    ASSERT_EQ(window->step_of_bin, rebalance_window(costs, shape)->step_of_bin);
    if (shape.max_delay == 0 || window->time_before == window->lower_bound) {
      ASSERT_EQ(window->step_of_bin, before);
    }
  }
}

TEST(RebalanceWindow, IsNearTheBestOfAllWays) {
  int64_t found = 0, best = 0, before = 0, worst = 0;
  for (uint64_t trial = 0; trial < 300; ++trial) {
    const uint64_t key = derive_key(2, "window", trial);
    constexpr std::pair<uint32_t, uint32_t> kSizes[] = {{2, 4}, {3, 3}, {4, 2}, {2, 5}};
    const auto [steps, bins] = kSizes[trial % 4];
    const auto delay = static_cast<uint32_t>(1 + uniform_below(key, 0, 10, steps - 1));
    const auto width = static_cast<uint32_t>(1 + uniform_below(key, 0, 11, bins));
    const WindowShape shape{bins, delay, width, 0};
    const Costs costs = random_costs(key, size_t{steps} * bins);
    const auto window = rebalance_window(costs, shape);
    const int64_t optimum = best_of_all(costs, shape);
    ASSERT_GE(window->time_after, optimum);
    ASSERT_LE(window->lower_bound, optimum);
    worst = std::max(worst, window->time_after * 1000 / std::max<int64_t>(optimum, 1));
    found += window->time_after;
    best += optimum;
    before += window->time_before;
  }
  EXPECT_LE(found * 1000 / best, 1002);
  EXPECT_LE(worst, 1100);
  EXPECT_GE(before * 1000 / best, 1050);  // there was something to gain
}

TEST(RebalanceWindow, FindsWhereOutliersMeetInLargeWindows) {
  // The heaviest four cannot meet in one step, as the first and the last are three steps apart.
  constexpr uint32_t kBins = 6000;
  for (const uint32_t heaviest : {0u, 1u, 2u, 3u}) {
    Costs costs = random_costs(6, 4 * kBins);
    for (uint32_t s = 0; s < 4; ++s) costs[s * kBins + 17] = s == heaviest ? 30'000 : 20'000;
    const WindowShape shape{kBins, 1, 300, 0};
    const auto window = rebalance_window(costs, shape);
    EXPECT_EQ(window->time_after, time_of(costs, window->step_of_bin, shape));
    EXPECT_EQ(window->time_before, 90'000);
    EXPECT_LE(window->time_after, 30'000 + 20'000 + 2 * 1'200);  // two steps without outliers
  }
}

TEST(RebalanceWindow, ToleranceMovesFewerBins) {
  const Costs costs = random_costs(5, 4 * 2000);
  const auto moved = [](const RebalancedWindow& window) {
    return std::accumulate(window.bins_by_shift.begin(), window.bins_by_shift.end(), uint64_t{0}) -
           window.bins_by_shift[window.reach];
  };
  const auto exact = rebalance_window(costs, {2000, 3, 1000, 0});
  const auto tolerant = rebalance_window(costs, {2000, 3, 1000, 20});
  EXPECT_LT(exact->time_after, exact->time_before);
  EXPECT_LT(moved(*tolerant), moved(*exact));
  EXPECT_LE(tolerant->time_after * 100, exact->time_after * 104);
}

TEST(RebalanceWindow, RefusesWhatIsNoWindow) {
  const auto refused = [](const Costs& costs, const WindowShape& shape) {
    return rebalance_window(costs, shape).status().code() == Code::kInvalidArgument;
  };
  EXPECT_TRUE(refused({1, 2}, {0, 1, 1}));
  EXPECT_TRUE(refused({1, 2}, {1, 1, 0}));
  EXPECT_TRUE(refused({}, {1, 1, 1}));
  EXPECT_TRUE(refused({1, 2, 3}, {2, 1, 1}));
  EXPECT_TRUE(refused(Costs(257, 1), {1, 1, 1}));
  EXPECT_TRUE(refused({1, -2}, {1, 1, 1}));
  EXPECT_TRUE(refused({1, 2}, {1, 1, 1, 1001}));
  EXPECT_TRUE(refused({1, std::numeric_limits<int64_t>::max()}, {1, 1, 1}));
}

}  // namespace
}  // namespace overlord::plan
