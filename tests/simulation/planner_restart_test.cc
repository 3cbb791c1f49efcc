// The planner dies at any message or sync, or stops and wakes beside its successor: the next one
// goes on from the journal, the stream is the same, and nobody heeds the one before (reliability:
// terms).
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "overlord/protocol/journal/journal_record.h"
#include "overlord/sim/scenario.h"
#include "simulation/seeds.h"
#include "simulation/storms.h"

namespace overlord::sim {
namespace planner_restart_test {

Layout alone(uint64_t seed) {
  Layout layout;
  layout.split = true;
  layout.planner.kills = 1 + seed % 6;
  layout.planner.rarity = 4 + seed % 40;
  return layout;
}

TEST(PlannerRestart, TheStreamGoesOnFromTheJournal) {
  const Scenario scenario = spread_out();
  const auto job = scenario.open();
  const Digest expected = quiet_hash(scenario, kSteps);
  Sightings all;
  const uint64_t worlds = for_each_seed(400, [&](uint64_t seed) {
    auto cluster = start(scenario, job, seed, alone(seed));
    ASSERT_TRUE(cluster->run(kSteps)) << "hangs";
    ASSERT_NO_FATAL_FAILURE(check_undisturbed(cluster.get(), scenario, expected));
    all.planner_kills += cluster->sightings().planner_kills;
    all.planner_wakes += cluster->sightings().planner_wakes;
    all.stepped_down += cluster->sightings().stepped_down;
  });
  if (worlds < 25) return;
  EXPECT_GT(all.planner_kills, 2 * worlds);
  EXPECT_GT(all.planner_wakes, worlds / 4);
  EXPECT_GT(all.stepped_down, 0u) << "one that wakes finds that its journal is another's";
}

TEST(PlannerRestart, WhileEverybodyElseDies) {
  const Scenario scenario = spread_out();
  const auto job = scenario.open();
  const Digest expected = quiet_hash(scenario, kSteps);
  for_each_seed(400, [&](uint64_t seed) {
    Layout layout = stormy(seed);
    layout.planner = alone(seed).planner;
    layout.keeper.kills = seed % 3;
    auto cluster = start(scenario, job, seed, layout);
    ASSERT_TRUE(cluster->run(kSteps)) << "hangs";
    ASSERT_NO_FATAL_FAILURE(check_undisturbed(cluster.get(), scenario, expected));
  });
}

// Not to be noticed is the bug: each of these is what one check is for.
void expect_noticed(void (*break_it)(PlannerStorm*)) {
  GTEST_FLAG_SET(death_test_style, "fast");
  const auto world = [&] {
    const Scenario scenario = spread_out();
    const auto job = scenario.open();
    const Digest expected = quiet_hash(scenario, kSteps);
    for (uint64_t seed = 1; seed <= 200; ++seed) {
      Layout layout = alone(seed);
      layout.planner.kills = 8;
      layout.planner.rarity = 6 + seed % 20;
      layout.planner.sleep_ns = 400'000;  // wakes early, so that others come after it
      break_it(&layout.planner);
      auto cluster = start(scenario, job, seed, layout);
      const bool same =
          cluster->run(kSteps) && !cluster->failure() && cluster->stream_hash() == expected;
      if (!same) std::_Exit(1);
    }
    std::_Exit(0);
  };
  // By another stream, a hang, or an invariant that ends the process.
  EXPECT_EXIT(world(), [](int status) { return !::testing::ExitedWithCode(0)(status); }, "");
}

TEST(PlannerRestart, AJournalThatFencesNobodyIsNoticed) {
  expect_noticed([](PlannerStorm* storm) { storm->unfenced_journal = true; });
}

TEST(PlannerRestart, RolesThatHeedAnEarlierTermAreNoticed) {
  expect_noticed([](PlannerStorm* storm) { storm->unfenced_roles = true; });
}

// A sync that fails is final, and ends all ranks before the same step.
TEST(PlannerRestart, AFailedSyncEndsAllRanksBeforeTheSameStep) {
  const Scenario scenario = spread_out();
  const auto job = scenario.open();
  for_each_seed(50, [&](uint64_t seed) {
    Layout layout;
    layout.split = true;
    layout.planner.failing_sync = 2 + seed % 8;
    auto cluster = start(scenario, job, seed, layout);
    ASSERT_TRUE(cluster->run(100'000)) << "hangs";
    const StepIndex end = cluster->consumer(0).state().state.next_step;
    for (const Rank rank : cluster->ranks()) {
      ASSERT_TRUE(cluster->consumer(rank).failure()) << "rank " << rank;
      EXPECT_EQ(cluster->consumer(rank).failure()->code(), Code::kResource);
      EXPECT_EQ(cluster->consumer(rank).state().state.next_step, end) << "all before one step";
    }
  });
}

}  // namespace planner_restart_test
}  // namespace overlord::sim
