#include "overlord/plan/pipeline/pipeline_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>

#include "overlord/base/rng.h"

namespace overlord::plan {
namespace {

using Costs = std::vector<int64_t>;
using Order = std::vector<uint32_t>;

// One run: what a stage does with one part of the model for the microbatch at one place.
struct Work {
  bool backward;
  uint32_t place;
  uint32_t part;
};

// The lists of Megatron-LM's schedules, written down one run after the other.
std::vector<Work> work_of_stage(const PipelineShape& shape, uint32_t stage, uint32_t count) {
  std::vector<Work> forwards, backwards, list;
  const uint32_t group = shape.virtual_stages == 1 ? count : shape.stages;
  for (uint32_t first = 0; first < count; first += group) {
    for (uint32_t part = 0; part < shape.virtual_stages; ++part) {
      for (uint32_t place = first; place < first + group; ++place) {
        forwards.push_back({false, place, part});
        backwards.push_back({true, place, shape.virtual_stages - 1 - part});
      }
    }
  }
  size_t warm_up = shape.stages - stage - 1;
  if (shape.virtual_stages > 1) warm_up = 2 * warm_up + (shape.virtual_stages - 1) * shape.stages;
  warm_up = std::min(warm_up, forwards.size());
  size_t ahead = 0, back = 0;
  while (ahead < warm_up) list.push_back(forwards[ahead++]);
  while (ahead < forwards.size()) {
    list.push_back(forwards[ahead++]);
    list.push_back(backwards[back++]);
  }
  while (back < backwards.size()) list.push_back(backwards[back++]);
  return list;
}

// Lets every stage do its next run when what it waits for is there, until all is done.
int64_t simulate(const PipelineShape& shape, const Costs& costs, const Order& order) {
  const auto count = static_cast<uint32_t>(costs.size());
  const uint32_t last = shape.stages - 1;
  const uint32_t last_part = shape.virtual_stages - 1;
  const auto divide_up = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  std::map<std::tuple<bool, uint32_t, uint32_t, uint32_t>, int64_t> done;  // kind, place, part, s
  std::vector<std::vector<Work>> lists;
  for (uint32_t s = 0; s <= last; ++s) lists.push_back(work_of_stage(shape, s, count));
  std::vector<size_t> next(shape.stages, 0);
  std::vector<int64_t> free_at(shape.stages, 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (uint32_t s = 0; s <= last; ++s) {
      if (next[s] == lists[s].size()) continue;
      const auto [backward, place, part] = lists[s][next[s]];
      int64_t ready = 0;
      std::tuple<bool, uint32_t, uint32_t, uint32_t> needed;
      bool needs = true;
      if (!backward) {
        needs = s > 0 || part > 0;
        needed = s > 0 ? std::tuple(false, place, part, s - 1)
                       : std::tuple(false, place, part - 1, last);
      } else if (s < last) {
        needed = {true, place, part, s + 1};
      } else if (part < last_part) {
        needed = {true, place, part + 1, 0u};
      } else {
        needed = {false, place, part, s};
      }
      if (needs) {
        const auto found = done.find(needed);
        if (found == done.end()) continue;
        ready = found->second;
      }
      const int64_t cost = costs[order[place]];
      const int64_t time =
          backward ? divide_up(cost * shape.backward_permille, int64_t{1000} * shape.virtual_stages)
                   : divide_up(cost, shape.virtual_stages);
      free_at[s] = std::max(free_at[s], ready) + time;
      done[{backward, place, part, s}] = free_at[s];
      ++next[s];
      moved = true;
    }
  }
  for (uint32_t s = 0; s <= last; ++s) EXPECT_EQ(next[s], lists[s].size()) << "stuck";
  return *std::max_element(free_at.begin(), free_at.end());
}

// Costs with a tail: most within a factor of two, some several times larger, some zero.
Costs random_costs(uint64_t key, uint32_t count) {
  Costs costs;
  for (uint32_t i = 0; i < count; ++i) {
    const auto base = static_cast<int64_t>(500 + uniform_below(key, i, 0, 500));
    const uint64_t kind = uniform_below(key, i, 1, 10);
    costs.push_back(kind == 0 ? 0 : kind < 4 ? base * static_cast<int64_t>(kind + 1) : base);
  }
  return costs;
}

Order random_order(uint64_t key, uint32_t count) {
  Order order(count);
  std::iota(order.begin(), order.end(), 0u);
  for (uint32_t i = count; i > 1; --i) {
    std::swap(order[i - 1], order[uniform_below(key, i, 7, i)]);
  }
  return order;
}

int64_t best_of_all(const PipelineShape& shape, Costs costs) {
  auto schedule = PipelineSchedule::make(shape, static_cast<uint32_t>(costs.size()));
  std::vector<int64_t> ends(schedule->runs() + 1, 0);
  std::sort(costs.begin(), costs.end());
  int64_t best = std::numeric_limits<int64_t>::max();
  do {
    const auto times = schedule->run_times(costs);
    best = std::min(best, schedule->run(*times, 0, ends));
  } while (std::next_permutation(costs.begin(), costs.end()));
  return best;
}

int64_t ratio_permille(int64_t a, int64_t b) { return a * 1000 / b; }

TEST(Makespan, EqualsTheSimulatorForAnyShape) {
  for (uint64_t trial = 0; trial < 600; ++trial) {
    const uint64_t key = derive_key(1, "makespan", trial);
    const auto stages = static_cast<uint32_t>(1 + uniform_below(key, 0, 0, 8));
    const auto count = static_cast<uint32_t>(1 + uniform_below(key, 0, 1, 20));
    const auto backward = static_cast<int64_t>(uniform_below(key, 0, 2, 3001));
    const PipelineShape shape{stages, 1, trial % 3 == 0 ? 2000 : backward};
    const Costs costs = random_costs(key, count);
    const Order order = random_order(key, count);
    const auto predicted = makespan(shape, costs, order);
    ASSERT_TRUE(predicted.ok());
    ASSERT_EQ(*predicted, simulate(shape, costs, order)) << "stages " << stages << " m " << count;
  }
}

TEST(Makespan, EqualsTheSimulatorWhenInterleaved) {
  for (uint64_t trial = 0; trial < 300; ++trial) {
    const uint64_t key = derive_key(2, "interleaved", trial);
    const auto stages = static_cast<uint32_t>(1 + uniform_below(key, 0, 0, 6));
    const auto parts = static_cast<uint32_t>(2 + uniform_below(key, 0, 1, 3));
    const auto count = stages * static_cast<uint32_t>(1 + uniform_below(key, 0, 2, 4));
    const PipelineShape shape{stages, parts, 2000};
    const Costs costs = random_costs(key, count);
    const Order order = random_order(key, count);
    const auto predicted = makespan(shape, costs, order);
    ASSERT_TRUE(predicted.ok());
    ASSERT_EQ(*predicted, simulate(shape, costs, order))
        << "stages " << stages << " parts " << parts << " m " << count;
  }
}

TEST(Makespan, OfEqualMicrobatchesIsTheTextbookOne) {
  for (uint32_t stages : {1u, 2u, 4u, 8u}) {
    for (uint32_t count : {1u, 3u, 8u, 16u}) {
      const Costs costs(count, 10);
      EXPECT_EQ(*makespan({stages}, costs, random_order(0, count)), (stages - 1 + count) * 30);
    }
  }
  // Interleaving makes the bubble smaller by the number of parts.
  EXPECT_EQ(*makespan({4, 2}, Costs(16, 10), random_order(0, 16)), 16 * 30 + 3 * 15);
}

TEST(Makespan, OfSeveralOrdersIsThatOfEach) {
  const Costs costs = random_costs(4, 9);
  std::vector<uint32_t> orders;
  std::vector<int64_t> expected;
  for (uint64_t key = 0; key < 5; ++key) {
    const Order order = random_order(key, 9);
    orders.insert(orders.end(), order.begin(), order.end());
    expected.push_back(*makespan({3}, costs, order));
  }
  EXPECT_EQ(*makespans({3}, costs, orders), expected);
  EXPECT_FALSE(makespans({3}, costs, std::span(orders).first(10)).ok());
}

TEST(Makespan, RefusesWhatIsNoPipeline) {
  const Costs costs{1, 2, 3};
  const Order order{0, 1, 2};
  const auto refused = [](const PipelineShape& shape, const Costs& c, const Order& o) {
    return makespan(shape, c, o).status().code() == Code::kInvalidArgument;
  };
  EXPECT_TRUE(refused({0}, costs, order));
  EXPECT_TRUE(refused({2, 0}, costs, order));
  EXPECT_TRUE(refused({2, 1, -1}, costs, order));
  EXPECT_TRUE(refused({2, 2}, costs, order));  // 3 microbatches are no multiple of 2 stages
  EXPECT_TRUE(refused({2}, {}, {}));
  EXPECT_TRUE(refused({2}, {1, -1, 3}, order));
  EXPECT_TRUE(refused({2}, {1, std::numeric_limits<int64_t>::max(), 3}, order));
  EXPECT_TRUE(refused({2}, costs, {0, 1}));
  EXPECT_TRUE(refused({2}, costs, {0, 1, 1}));
  EXPECT_TRUE(refused({2}, costs, {0, 1, 3}));
  EXPECT_TRUE(refused({1u << 30}, costs, order));
}

TEST(OrderMicrobatches, SimpleOrdersAreWhatTheyAreCalled) {
  const Costs costs{3, 1, 5, 2, 4};
  const auto order = [&costs](OrderMethod method) {
    return order_microbatches(method, {2}, costs)->order;
  };
  EXPECT_EQ(order(OrderMethod::kKeep), (Order{0, 1, 2, 3, 4}));
  EXPECT_EQ(order(OrderMethod::kAscending), (Order{1, 3, 0, 4, 2}));
  EXPECT_EQ(order(OrderMethod::kDescending), (Order{2, 4, 0, 3, 1}));
  EXPECT_EQ(order(OrderMethod::kSmallEnds), (Order{1, 0, 2, 4, 3}));
  EXPECT_EQ(order_microbatches(OrderMethod::kSmallEnds, {2}, Costs{1, 2, 3, 4})->order,
            (Order{1, 3, 2, 0}));
}

TEST(OrderMicrobatches, GivesAPermutationWithItsMakespanBetweenBoundAndStart) {
  for (uint64_t trial = 0; trial < 120; ++trial) {
    const uint64_t key = derive_key(3, "order", trial);
    const auto stages = static_cast<uint32_t>(1 + uniform_below(key, 0, 0, 8));
    const uint32_t parts = trial % 4 == 3 ? 2 : 1;
    auto count = static_cast<uint32_t>(1 + uniform_below(key, 0, 1, 24));
    if (parts > 1) count = stages * (1 + count % 3);
    const PipelineShape shape{stages, parts, 2000};
    const Costs costs = random_costs(key, count);
    int64_t best_simple = std::numeric_limits<int64_t>::max();
    for (const auto method : {OrderMethod::kKeep, OrderMethod::kAscending, OrderMethod::kDescending,
                              OrderMethod::kSmallEnds, OrderMethod::kSearch}) {
      const auto ordered = order_microbatches(method, shape, costs, {20'000});
      ASSERT_TRUE(ordered.ok());
      Order sorted = ordered->order;
      std::sort(sorted.begin(), sorted.end());
      for (uint32_t i = 0; i < count; ++i) ASSERT_EQ(sorted[i], i);
      ASSERT_EQ(ordered->makespan, simulate(shape, costs, ordered->order));
      ASSERT_GE(ordered->makespan, ordered->lower_bound);
      Order kept(count);
      std::iota(kept.begin(), kept.end(), 0u);
      ASSERT_EQ(ordered->kept_makespan, *makespan(shape, costs, kept));
      if (method != OrderMethod::kSearch) {
        best_simple = std::min(best_simple, ordered->makespan);
      } else {
        ASSERT_LE(ordered->makespan, best_simple);
        ASSERT_EQ(ordered->order, order_microbatches(method, shape, costs, {20'000})->order);
      }
    }
  }
}

TEST(OrderMicrobatches, SearchIsWithinTwoPercentOfTheBestOrder) {
  int64_t worst = 0;
  for (uint64_t trial = 0; trial < 60; ++trial) {
    const uint64_t key = derive_key(4, "optimum", trial);
    const auto stages = static_cast<uint32_t>(2 + uniform_below(key, 0, 0, 7));
    const auto count = static_cast<uint32_t>(2 + trial % 6);
    const PipelineShape shape{stages, 1, trial % 2 == 0 ? 2000 : 1500};
    const Costs costs = random_costs(key, count);
    const auto ordered = order_microbatches(OrderMethod::kSearch, shape, costs);
    const int64_t best = best_of_all(shape, costs);
    ASSERT_LE(ordered->lower_bound, best);
    ASSERT_GE(ordered->makespan, best);
    worst = std::max(worst, ratio_permille(ordered->makespan, std::max<int64_t>(best, 1)));
  }
  EXPECT_LE(worst, 1020);
}

TEST(OrderMicrobatches, SearchIsWithinTwoPercentOfTheBestOrderForEightAndInterleaved) {
  int64_t worst = 0;
  for (uint64_t trial = 0; trial < 24; ++trial) {
    const uint64_t key = derive_key(5, "optimum", trial);
    const PipelineShape shape{trial % 4 < 2 ? 4u : 2u, trial % 2 == 0 ? 1u : 2u, 2000};
    const Costs costs = random_costs(key, 8);
    const auto ordered = order_microbatches(OrderMethod::kSearch, shape, costs);
    const int64_t best = best_of_all(shape, costs);
    ASSERT_LE(ordered->lower_bound, best);
    worst = std::max(worst, ratio_permille(ordered->makespan, best));
  }
  EXPECT_LE(worst, 1020);
}

TEST(OrderMicrobatches, SearchBeatsRandomOrdersByFifteenPercent) {
  using Size = std::pair<uint32_t, uint32_t>;
  for (const auto& [stages, count] : {Size(4, 8), Size(4, 16), Size(8, 16), Size(8, 32)}) {
    int64_t ours = 0, random = 0;
    for (uint64_t trial = 0; trial < 20; ++trial) {
      const uint64_t key = derive_key(6, "random", trial);
      const Costs costs = random_costs(key, count);
      ours += *makespan({stages}, costs,
                        order_microbatches(OrderMethod::kSearch, {stages}, costs)->order);
      random += *makespan({stages}, costs, random_order(key, count));
    }
    EXPECT_LE(ratio_permille(ours, random), 850) << stages << " stages, " << count;
  }
}

TEST(OrderMicrobatches, WorkIsBounded) {
  // Too large to search through: still an answer, no worse than small ends.
  const Costs costs = random_costs(9, 1024);
  const auto ordered = order_microbatches(OrderMethod::kSearch, {16}, costs, {100'000});
  const auto simple = order_microbatches(OrderMethod::kSmallEnds, {16}, costs);
  EXPECT_LE(ordered->makespan, simple->makespan);
  EXPECT_GE(ordered->makespan, ordered->lower_bound);
}

TEST(OrderStep, TakesAsLongAsItsLastPipeline) {
  constexpr uint32_t kPipelines = 6;
  constexpr uint32_t kCount = 12;
  for (uint64_t trial = 0; trial < 10; ++trial) {
    Costs costs = random_costs(derive_key(7, "step", trial), kPipelines * kCount);
    const auto step = order_step(OrderMethod::kSearch, {4}, costs, kPipelines);
    ASSERT_TRUE(step.ok());
    int64_t longest = 0, bound = 0, kept = 0, alone = 0;
    for (uint32_t i = 0; i < kPipelines; ++i) {
      const std::span<const int64_t> own(costs.data() + i * kCount, kCount);
      const Ordered& pipeline = step->pipelines[i];
      ASSERT_EQ(pipeline.makespan, *makespan({4}, own, pipeline.order));
      longest = std::max(longest, pipeline.makespan);
      bound = std::max(bound, pipeline.lower_bound);
      kept = std::max(kept, pipeline.kept_makespan);
      alone = std::max(alone, order_microbatches(OrderMethod::kSearch, {4}, own)->makespan);
    }
    EXPECT_EQ(step->step_time, longest);
    EXPECT_EQ(step->lower_bound, bound);
    EXPECT_EQ(step->kept_step_time, kept);
    EXPECT_EQ(step->step_time, alone);  // searching only those that hold it up loses nothing
  }
  EXPECT_FALSE(order_step(OrderMethod::kSearch, {4}, Costs(13, 1), 2).ok());
  EXPECT_FALSE(order_step(OrderMethod::kSearch, {4}, Costs(12, 1), 0).ok());
}

}  // namespace
}  // namespace overlord::plan
