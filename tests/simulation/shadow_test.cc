// Loaders with shadows: whoever dies, its slots go on where they stand by, and the stream is the
// same (reliability: a slot is active once, in a generation of its own).
#include <gtest/gtest.h>

#include <memory>

#include "overlord/sim/scenario.h"
#include "simulation/checkers/all.h"
#include "simulation/seeds.h"
#include "simulation/storms.h"

namespace overlord::sim {
namespace shadow_test {

TEST(Shadow, TheStreamIsTheSameWhereNobodyDies) {
  const Scenario scenario = with_shadows();
  Layout layout;
  layout.split = true;
  auto cluster = start(scenario, scenario.open(), 3, layout);
  ASSERT_TRUE(cluster->run(kSteps));
  EXPECT_EQ(cluster->stream_hash(), quiet_hash(scenario, kSteps));
  EXPECT_EQ(cluster->sightings().promotions, 0u);
}

TEST(Shadow, SlotsGoOnWhereTheyStandBy) {
  const Scenario scenario = with_shadows();
  const auto job = scenario.open();
  const Digest expected = quiet_hash(scenario, kSteps);
  Sightings all;
  const uint64_t worlds = for_each_seed({200}, [&](uint64_t seed) {
    auto cluster = start(scenario, job, seed, stormy(seed));
    const bool finished = cluster->run(kSteps);
    ASSERT_EQ(checkers::undisturbed(*cluster, finished, scenario, expected), checkers::kKept);
    all.promotions += cluster->sightings().promotions;
    all.lies += cluster->sightings().lies;
  });
  if (worlds < 25) return;
  EXPECT_GT(all.promotions, worlds);
  EXPECT_GT(all.lies, worlds);
  RecordProperty("promotions", static_cast<int>(all.promotions));
}

TEST(Shadow, WhilePlannersAndKeepersDieToo) {
  const Scenario scenario = with_shadows();
  const auto job = scenario.open();
  const Digest expected = quiet_hash(scenario, kSteps);
  uint64_t promotions = 0, keepers = 0, planners = 0;
  const uint64_t worlds = for_each_seed({200}, [&](uint64_t seed) {
    Layout layout = stormy(seed);
    layout.planner.kills = seed % 4;
    layout.planner.rarity = 4 + seed % 40;
    layout.keeper.kills = seed % 3;
    auto cluster = start(scenario, job, seed, layout);
    const bool finished = cluster->run(kSteps);
    ASSERT_EQ(checkers::undisturbed(*cluster, finished, scenario, expected), checkers::kKept);
    promotions += cluster->sightings().promotions;
    keepers += cluster->sightings().keeper_kills;
    planners += cluster->sightings().planner_kills;
  });
  if (worlds < 25) return;
  EXPECT_GT(promotions, worlds);
  EXPECT_GT(keepers, worlds / 2);
  EXPECT_GT(planners, worlds / 2);
}

// Budgets of one byte, no runway to speak of, several workers and slots.
TEST(Shadow, KnobsDoNotMatter) {
  for_each_seed({120}, [&](uint64_t world) {
    Scenario scenario = with_shadows();
    scenario.spec.max_steps = kSteps;
    for (model::Source& source : scenario.spec.sources) {
      source.loaders = 1 + static_cast<uint32_t>(world % 3);
      source.workers = 1 + static_cast<uint32_t>(world / 3 % 3);
    }
    scenario.options.runway = 1 + static_cast<uint32_t>(world % 5);
    scenario.options.payload_budget_bytes = world % 2 == 0 ? 1 : 64 << 10;
    auto cluster = start(scenario, scenario.open(), world, stormy(world));
    const bool finished = cluster->run(100'000);
    ASSERT_EQ(checkers::undisturbed(*cluster, finished, scenario, quiet_hash(scenario, kSteps)),
              checkers::kKept);
  });
}

}  // namespace shadow_test
}  // namespace overlord::sim
