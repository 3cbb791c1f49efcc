// The planner dies at any message or sync, or stops and wakes beside its successor: the next one
// goes on from the journal, the stream is the same, and nobody heeds the one before (reliability:
// terms).
#include <gtest/gtest.h>

#include <memory>

#include "overlord/sim/scenario.h"
#include "simulation/checkers/all.h"
#include "simulation/checkers/same_end.h"
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
  const uint64_t worlds = for_each_seed({200}, [&](uint64_t seed) {
    auto cluster = start(scenario, job, seed, alone(seed));
    const bool finished = cluster->run(kSteps);
    ASSERT_EQ(checkers::undisturbed(*cluster, finished, scenario, expected), checkers::kKept);
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
  for_each_seed({200}, [&](uint64_t seed) {
    Layout layout = stormy(seed);
    layout.planner = alone(seed).planner;
    layout.keeper.kills = seed % 3;
    auto cluster = start(scenario, job, seed, layout);
    const bool finished = cluster->run(kSteps);
    ASSERT_EQ(checkers::undisturbed(*cluster, finished, scenario, expected), checkers::kKept);
  });
}

// One that was stopped goes on behind the tenth plan of its successor, with whatever it was at: it
// finds that the journal is another's, and nobody hears of it.
TEST(PlannerRestart, OneThatWakesBehindTenPlansOfAnotherSaysNothing) {
  constexpr uint64_t kLong = 30;
  const Scenario scenario = spread_out();
  const auto job = scenario.open();
  const Digest expected = quiet_hash(scenario, kLong);
  uint64_t wakes = 0, stepped_down = 0;
  const uint64_t worlds = for_each_seed({40}, [&](uint64_t seed) {
    Layout layout = alone(seed);
    layout.planner.kills = 1 + seed % 2;
    layout.planner.sleep_plans = 10;
    layout.planner.sleep_ns = 100'000;
    auto cluster = start(scenario, job, seed, layout);
    const bool finished = cluster->run(kLong);
    ASSERT_EQ(checkers::undisturbed(*cluster, finished, scenario, expected), checkers::kKept);
    wakes += cluster->sightings().planner_wakes;
    stepped_down += cluster->sightings().stepped_down;
  });
  if (worlds < seeds::kStorm) return;
  EXPECT_GT(wakes, worlds / 2);
  EXPECT_GT(stepped_down, worlds / 8) << "it has tried to write";
}

// A sync that fails is final, and ends all ranks before the same step.
TEST(PlannerRestart, AFailedSyncEndsAllRanksBeforeTheSameStep) {
  const Scenario scenario = spread_out();
  const auto job = scenario.open();
  for_each_seed({50}, [&](uint64_t seed) {
    Layout layout;
    layout.split = true;
    layout.planner.failing_sync = 2 + seed % 8;
    auto cluster = start(scenario, job, seed, layout);
    ASSERT_TRUE(cluster->run(100'000)) << "hangs";
    ASSERT_EQ(checkers::same_end(*cluster, Code::kResource), checkers::kKept);
  });
}

}  // namespace planner_restart_test
}  // namespace overlord::sim
