#include "overlord/plan/place/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "overlord/base/rng.h"
#include "overlord/plan/cost/cost.h"
#include "overlord/plan/made_up_cost_test.h"

namespace overlord::plan {
namespace {

using model::BalanceLevel;
using model::BalanceMethod;

struct BalanceCase {
  uint32_t consumers = 4, rounds = 3, size = 2, substeps = 1, stages = 1;
  uint32_t missing = 0;  // seats that stay empty, per substep
};

// Bins of one long and some short documents, by the seed.
DGraph graph_of(const BalanceCase& shape, uint64_t seed) {
  const uint32_t bins =
      (shape.consumers * shape.rounds * shape.size - shape.missing) * shape.substeps;
  std::vector<model::Segment> segments;
  std::vector<uint32_t> ends;
  for (uint32_t bin = 0; bin < bins; ++bin) {
    const uint64_t documents = uniform_below(seed, bin, 0, 5);
    for (uint64_t d = 0; d < documents; ++d) {
      model::Segment segment;
      segment.id = {0, 0, segments.size()};
      segment.count = static_cast<uint32_t>(1 + uniform_below(seed, bin, d + 1, 4096));
      segments.push_back(segment);
    }
    ends.push_back(static_cast<uint32_t>(segments.size()));
  }
  return DGraph(std::move(segments), std::move(ends),
                {shape.consumers, shape.rounds * shape.substeps, shape.size});
}

model::Strategy strategy_of(BalanceMethod method, BalanceLevel level) {
  model::Strategy strategy;
  strategy.has_cost = true;
  strategy.cost = quadratic_cost("tokens", 0, int64_t{24576} << 16, int64_t{1} << 16);
  strategy.balance = method;
  strategy.level = level;
  return strategy;
}

model::PlanReport placed(const model::Strategy& strategy, const BalanceCase& shape, uint64_t seed,
                         std::vector<model::Placement>* placements = nullptr) {
  DGraph graph = graph_of(shape, seed);
  const DealShape deal{shape.substeps, shape.stages};
  const Status status = Placer().place(strategy, deal, &graph);
  EXPECT_TRUE(status.ok()) << status.message();
  const auto read = graph.read_placements();
  EXPECT_TRUE(read.ok()) << read.status().message();
  const uint32_t per_substep = graph.bins() / shape.substeps;
  for (uint32_t bin = 0; bin < graph.bins(); ++bin) {
    EXPECT_LT((*read)[bin].bucket, shape.consumers);
    EXPECT_EQ((*read)[bin].microbatch / shape.rounds, bin / per_substep) << "crosses a substep";
  }
  if (placements != nullptr) *placements = *read;
  return *Placer::report(strategy, deal, graph);
}

constexpr BalanceMethod kMethods[] = {BalanceMethod::kGreedy, BalanceMethod::kLpt,
                                      BalanceMethod::kLptSearch, BalanceMethod::kKarmarkarKarp,
                                      BalanceMethod::kZigzag};
constexpr BalanceLevel kLevels[] = {BalanceLevel::kBucket, BalanceLevel::kBin,
                                    BalanceLevel::kInterleaved};

TEST(Placement, EveryMethodAndLevelSeatsEveryBinInItsSubstep) {
  const BalanceCase shapes[] = {{}, {1, 1, 1}, {8, 4, 1, 2}, {3, 2, 4, 3, 2}, {4, 2, 2, 1, 1, 5}};
  for (const BalanceCase& shape : shapes) {
    for (const BalanceMethod method : kMethods) {
      for (const BalanceLevel level : kLevels) {
        for (uint64_t seed = 0; seed < 5; ++seed) placed(strategy_of(method, level), shape, seed);
      }
    }
  }
}

TEST(Placement, TheDefaultIsEvenerThanArrivalAndNeverBelowTheBound) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const BalanceCase shape{8, 6, 1};
    const auto best =
        placed(strategy_of(BalanceMethod::kLptSearch, BalanceLevel::kInterleaved), shape, seed);
    const auto arrival =
        placed(strategy_of(BalanceMethod::kArrival, BalanceLevel::kInterleaved), shape, seed);
    EXPECT_EQ(best.total, arrival.total);
    EXPECT_LE(best.consumer_max, arrival.consumer_max);
    EXPECT_GE(best.consumer_max, best.lower_bound);
    EXPECT_EQ(best.arrival_step_ns, arrival.step_ns);
    EXPECT_LE(best.step_ns, best.arrival_step_ns);
  }
}

TEST(Placement, GroupsBalanceAmongThemselves) {
  const BalanceCase shape{8, 4, 1};
  model::Strategy strategy = strategy_of(BalanceMethod::kLptSearch, BalanceLevel::kBucket);
  strategy.group_size = 2;
  std::vector<model::Placement> placements;
  placed(strategy, shape, 7, &placements);
  for (uint32_t bin = 0; bin < placements.size(); ++bin) {
    EXPECT_EQ(placements[bin].bucket / 2, bin % 8 / 2) << "bin " << bin << " left its group";
  }
}

TEST(Placement, OrderOnlyRenumbersMicrobatches) {
  const BalanceCase shape{4, 8, 1, 1, 4};
  model::Strategy strategy = strategy_of(BalanceMethod::kLptSearch, BalanceLevel::kInterleaved);
  std::vector<model::Placement> kept, ordered;
  const auto before = placed(strategy, shape, 3, &kept);
  strategy.order = model::OrderMethod::kSearch;
  const auto after = placed(strategy, shape, 3, &ordered);
  EXPECT_LT(after.step_ns, before.step_ns);
  EXPECT_EQ(after.consumer_max, before.consumer_max);
  for (size_t bin = 0; bin < kept.size(); ++bin) EXPECT_EQ(kept[bin].bucket, ordered[bin].bucket);
}

TEST(Placement, WithoutACostBinsAreDealtInTurn) {
  const BalanceCase shape{3, 2, 2};
  DGraph graph = graph_of(shape, 1);
  ASSERT_TRUE(Placer().place({}, {1, 1}, &graph).ok());
  const auto placements = *graph.read_placements();
  EXPECT_EQ(placements[0], (model::Placement{0, 0, 0}));
  EXPECT_EQ(placements[3], (model::Placement{1, 0, 1}));
  EXPECT_EQ(placements[6], (model::Placement{0, 1, 0}));
}

TEST(Placement, AColumnThatIsNotThereIsAnError) {
  DGraph graph = graph_of({}, 1);
  model::Strategy strategy = strategy_of(BalanceMethod::kLpt, BalanceLevel::kBucket);
  strategy.cost = quadratic_cost("image_patches", 0, 1, 1);
  const Status status = Placer().place(strategy, {1, 1}, &graph);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("image_patches"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace overlord::plan
