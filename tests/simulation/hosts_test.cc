// Hosts without ranks join and leave while the job runs: groups of loaders move to them and back,
// and the stream is the same.
#include <gtest/gtest.h>

#include "simulation/checkers/all.h"
#include "simulation/seeds.h"
#include "simulation/storms.h"

namespace overlord::sim {
namespace hosts_test {

// Runs a world of every seed, in most of which groups live elsewhere for a while.
template <typename Brew>
void in_many_worlds(const Scenario& scenario, Brew&& brew) {
  const auto job = scenario.open();
  const Digest expected = quiet_hash(scenario, kSteps);
  uint64_t elsewhere = 0;
  const uint64_t worlds = for_each_seed({200}, [&](uint64_t seed) {
    Layout layout;
    layout.split = true;
    layout.loaders_together = 1 + static_cast<uint32_t>(seed % 2);
    layout.keeper.hosts = 2 + seed % 12;
    layout.keeper.host_rarity = 2 + seed % 12;
    brew(seed, &layout);
    auto cluster = start(scenario, job, seed, layout);
    const bool finished = cluster->run(kSteps);
    ASSERT_EQ(checkers::undisturbed(*cluster, finished, scenario, expected), checkers::kKept);
    elsewhere += cluster->sightings().placed_elsewhere;
  });
  if (worlds < 25) return;  // one of them, run again
  EXPECT_GT(elsewhere, worlds / 2);
}

TEST(Hosts, ComeAndGoWhileTheJobRuns) {
  in_many_worlds(spread_out(), [](uint64_t, Layout*) {});
}

TEST(Hosts, ComeAndGoWhereSlotsHaveShadows) {
  in_many_worlds(with_shadows(), [](uint64_t, Layout*) {});
}

void everybody_else_dies(uint64_t seed, Layout* layout) {
  const Layout storm = stormy(seed);
  layout->storm = storm.storm;
  layout->planner = storm.planner;
  layout->keeper.kills = seed % 3;
}

TEST(Hosts, ComeAndGoWhileEverybodyElseDies) {
  in_many_worlds(with_shadows(), everybody_else_dies);
}

TEST(Hosts, AreShortOfMemoryNowAndThen) {
  in_many_worlds(spread_out(), [](uint64_t seed, Layout* layout) {
    layout->keeper.pressed = 1 + seed % 12;
    if (seed % 2 == 0) everybody_else_dies(seed, layout);
  });
}

// The host that leads dies or is cut off, at any message: keeper, planner and all loaders at once.
// The next one is on another host; it has the journal, and whoever lives calls it.
TEST(Hosts, TheOneThatLeadsDiesWhole) {
  const Scenario scenario = spread_out();
  const auto job = scenario.open();
  const Digest expected = quiet_hash(scenario, kSteps);
  uint64_t leads = 0, planners = 0;
  const uint64_t worlds = for_each_seed({200}, [&](uint64_t seed) {
    Layout layout;
    if (seed % 3 == 0) everybody_else_dies(seed, &layout);
    layout.split = true;
    layout.loaders_together = 1 + static_cast<uint32_t>(seed % 2);
    layout.keeper.host_dies = true;
    layout.keeper.kills = 1 + seed % 4;
    layout.keeper.rarity = 4 + seed % 40;
    layout.keeper.hosts = seed % 8;
    auto cluster = start(scenario, job, seed, layout);
    const bool finished = cluster->run(kSteps);
    ASSERT_EQ(checkers::undisturbed(*cluster, finished, scenario, expected), checkers::kKept);
    leads += cluster->sightings().keeper_kills;
    planners += cluster->sightings().planner_kills;
  });
  if (worlds < 25) return;  // one of them, run again
  EXPECT_GT(leads, worlds);
  EXPECT_GT(planners, worlds);
}

}  // namespace hosts_test
}  // namespace overlord::sim
