// Hosts without ranks join and leave while the job runs: groups of loaders move to them and back,
// and the stream is the same.
#include <gtest/gtest.h>

#include "simulation/checkers/all.h"
#include "simulation/seeds.h"
#include "simulation/storms.h"

namespace overlord::sim {
namespace hosts_test {

// Runs a world of every seed; returns how many groups lived elsewhere in all of them.
template <typename Brew>
uint64_t in_many_worlds(const Scenario& scenario, uint64_t seeds, Brew&& brew) {
  const auto job = scenario.open();
  const Digest expected = quiet_hash(scenario, kSteps);
  uint64_t elsewhere = 0;
  const uint64_t worlds = for_each_seed({seeds}, [&](uint64_t seed) {
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
  return worlds < 25 ? worlds + 1 : elsewhere;  // one of them, run again, need not show it
}

TEST(Hosts, ComeAndGoWhileTheJobRuns) {
  EXPECT_GT(in_many_worlds(spread_out(), 400, [](uint64_t, Layout*) {}), 400u);
}

TEST(Hosts, ComeAndGoWhereSlotsHaveShadows) {
  EXPECT_GT(in_many_worlds(with_shadows(), 400, [](uint64_t, Layout*) {}), 400u);
}

TEST(Hosts, ComeAndGoWhileEverybodyElseDies) {
  const auto brew = [](uint64_t seed, Layout* layout) {
    const Layout storm = stormy(seed);
    layout->storm = storm.storm;
    layout->planner = storm.planner;
    layout->keeper.kills = seed % 3;
  };
  EXPECT_GT(in_many_worlds(with_shadows(), 400, brew), 200u);
}

}  // namespace hosts_test
}  // namespace overlord::sim
