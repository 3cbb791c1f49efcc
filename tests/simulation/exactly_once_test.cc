// What arrives is what the files hold: every document of a pass once, its tokens in order, targets
// shifted, weights right; the ranks' views together are the step, exactly once.
#include "simulation/checkers/exactly_once.h"

#include <gtest/gtest.h>

#include <set>

#include "overlord/sim/scenario.h"
#include "simulation/storms.h"

namespace overlord::sim {
namespace exactly_once_test {

Scenario dry(model::Packing packing) {
  Scenario scenario = until_dry(Scenario::small());
  scenario.spec.packing.method = packing;
  return scenario;
}

class ExactlyOncePacking : public ::testing::TestWithParam<model::Packing> {};

TEST_P(ExactlyOncePacking, DeliversEveryDocumentOnce) {
  const Scenario scenario = dry(GetParam());
  const auto job = scenario.open();
  auto cluster = scenario.start(1);
  ASSERT_TRUE(cluster->run(100'000));
  ASSERT_TRUE(cluster->consumer(0).ended());
  EXPECT_EQ(checkers::right_batches(*cluster, scenario, *job), checkers::kKept);
  EXPECT_EQ(checkers::exactly_once(*cluster, scenario, *job, {1, 1, 1}), checkers::kKept);
}

INSTANTIATE_TEST_SUITE_P(Packing, ExactlyOncePacking,
                         ::testing::Values(model::Packing::kBestFit, model::Packing::kConcat,
                                           model::Packing::kPad));

TEST(ExactlyOnce, HoldsOverSeveralPasses) {
  Scenario scenario = Scenario::small();
  scenario.spec.max_steps = 40;
  const auto job = scenario.open();
  auto cluster = scenario.start(2);
  ASSERT_TRUE(cluster->run(100'000));
  const auto& cursors = cluster->consumer(0).state().state.cursors;
  ASSERT_GT(cursors[0].pass, 1u);
  // What the last step could not place is counted, not served: look at earlier passes only.
  EXPECT_EQ(checkers::exactly_once(
                *cluster, scenario, *job,
                {cursors[0].pass - 1, cursors[1].pass > 0 ? cursors[1].pass - 1 : 0, 0}),
            checkers::kKept);
}

TEST(ExactlyOnce, AllRanksEndOnTheSameStep) {
  Scenario scenario = dry(model::Packing::kBestFit);
  scenario.axes = {{"pp", 2}, {"dp", 2}, {"cp", 2}, {"tp", 1}};
  scenario.delivery.broadcast_axes = {"tp"};
  auto cluster = scenario.start(3);
  ASSERT_TRUE(cluster->run(100'000));
  const size_t batches = cluster->delivered(0).batches.size();
  for (const Rank rank : cluster->ranks()) {
    EXPECT_TRUE(cluster->consumer(rank).ended());
    EXPECT_EQ(cluster->delivered(rank).batches.size(), batches);
  }
}

// Slices of the context-parallel peers put together are the whole microbatch.
TEST(Views, SlicesOfAllPeersAreTheMicrobatchExactlyOnce) {
  for (const model::Slicing slicing : {model::Slicing::kSequenceZigzag, model::Slicing::kContiguous,
                                       model::Slicing::kDocumentZigzag}) {
    Scenario scenario = Scenario::small();
    scenario.spec.align = 4;
    scenario.delivery.slicing = slicing;
    scenario.delivery.microbatch_size = 2;
    scenario.axes = {{"dp", 2}, {"cp", 2}};
    auto sliced = scenario.start(4);
    ASSERT_TRUE(sliced->run(3));
    scenario.axes = {{"dp", 2}, {"cp", 1}};
    auto whole = scenario.start(5);
    ASSERT_TRUE(whole->run(3));
    for (size_t i = 0; i < whole->delivered(0).batches.size(); ++i) {
      const model::Slab& all = *whole->delivered(0).batches[i]->slab;
      std::multiset<int32_t> expected, got;
      const auto* values = static_cast<const int32_t*>(all.tokens.data);
      expected.insert(values, values + all.rows * all.columns);
      for (const Rank rank : {0u, 1u}) {
        const model::Slab& part = *sliced->delivered(rank).batches[i]->slab;
        EXPECT_EQ(part.columns, all.columns / 2);
        const auto* slice = static_cast<const int32_t*>(part.tokens.data);
        got.insert(slice, slice + part.rows * part.columns);
      }
      EXPECT_EQ(got, expected);
    }
  }
}

TEST(Views, PeersOfATensorGroupShareTheSameMemory) {
  Scenario scenario = Scenario::small();
  scenario.axes = {{"dp", 1}, {"tp", 3}};
  auto cluster = scenario.start(6);
  ASSERT_TRUE(cluster->run(1));
  const auto* first = cluster->delivered(0).batches[0]->slab.get();
  EXPECT_EQ(cluster->delivered(1).batches[0]->slab.get(), first);
  EXPECT_EQ(cluster->delivered(2).batches[0]->slab.get(), first);
}

}  // namespace exactly_once_test
}  // namespace overlord::sim
