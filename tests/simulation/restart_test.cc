// Loaders and constructors die at any message and start again: the stream goes on, the same bytes,
// each once, within bounds (reliability: one writer per slot, no late effect). Planner and clients
// live as long as the run.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "overlord/sim/scenario.h"
#include "simulation/checkers/all.h"
#include "simulation/checkers/same_end.h"
#include "simulation/seeds.h"
#include "simulation/storms.h"

namespace overlord::sim {
namespace restart_test {

TEST(Restart, RolesInProcessesOfTheirOwnGiveTheSameStream) {
  const Scenario scenario = spread_out();
  const auto job = scenario.open();
  Layout layout;
  layout.split = true;
  auto cluster = start(scenario, job, 3, layout);
  ASSERT_TRUE(cluster->run(kSteps));
  EXPECT_EQ(cluster->stream_hash(), quiet_hash(scenario, kSteps));
}

TEST(Restart, TheStreamGoesOnWhoeverDiesAndWhenever) {
  const Scenario scenario = spread_out();
  const auto job = scenario.open();
  const Digest expected = quiet_hash(scenario, kSteps);
  Sightings all;
  const uint64_t worlds = for_each_seed({200}, [&](uint64_t seed) {
    auto cluster = start(scenario, job, seed, stormy(seed));
    const bool finished = cluster->run(kSteps);
    ASSERT_EQ(checkers::undisturbed(*cluster, finished, scenario, expected), checkers::kKept);
    const Sightings seen = cluster->sightings();
    all.kills += seen.kills;
    all.lost += seen.lost;
    all.late += seen.late;
    all.lies += seen.lies;
    all.reposts += seen.reposts;
  });
  if (worlds < 25) return;  // one of them, run again
  // It was a storm.
  EXPECT_GT(all.kills, 3 * worlds);
  EXPECT_GT(all.lost, 10 * worlds);
  EXPECT_GT(all.late, worlds);
  EXPECT_GT(all.lies, 10 * worlds);
  EXPECT_GT(all.reposts, 0u);
  RecordProperty("kills", static_cast<int>(all.kills));
  RecordProperty("lies", static_cast<int>(all.lies));
}

struct Knobs {
  Scenario scenario;
  std::shared_ptr<const host::OpenJob> job;
  Digest expected;
};

Knobs turned(uint64_t variant) {
  Scenario scenario = spread_out();
  scenario.spec.max_steps = kSteps;
  for (model::Source& source : scenario.spec.sources) {
    source.loaders = 1 + static_cast<uint32_t>(variant % 3);
    source.workers = 1 + static_cast<uint32_t>(variant / 3 % 3);
  }
  scenario.options.prefetch_steps = 1 + static_cast<uint32_t>(variant % 4);
  scenario.options.runway = 1 + static_cast<uint32_t>(variant % 5);
  scenario.options.payload_budget_bytes = variant % 2 == 0 ? 1 : 64 << 20;
  scenario.options.constructor_budget_bytes = variant % 3 == 0 ? 1 : 64 << 20;
  return {scenario, scenario.open(), quiet_hash(scenario, kSteps)};
}

// Budgets of one byte, several workers and slots, short runways, one rank ahead of the others. A
// world is a variant (its remainder by twelve) and a seed (the rest).
TEST(Restart, KnobsDoNotMatter) {
  std::vector<Knobs> variants;
  for (uint64_t variant = 0; variant < 12; ++variant) variants.push_back(turned(variant));
  // 15240: a restarted constructor with room for one step held step 6 for a rank that had all it
  // wanted.
  for_each_seed({120, {15240}}, [&](uint64_t world) {
    const Knobs& knobs = variants[world % variants.size()];
    const uint64_t seed = world / variants.size();
    auto cluster = start(knobs.scenario, knobs.job, seed, stormy(seed));
    ASSERT_TRUE(cluster->take(static_cast<Rank>(seed % 4), seed % 5)) << "hangs";
    const bool finished = cluster->run(100'000);
    ASSERT_EQ(checkers::undisturbed(*cluster, finished, knobs.scenario, knobs.expected),
              checkers::kKept);
  });
}

// Every document of every source once, to the end of the stream; rows found bad after they were
// planned are told again by the next generation and count once.
TEST(Restart, EndsOnTheSameStepAndCountsLateBadRowsOnce) {
  const Scenario scenario = until_dry(with_late_bad(1000));
  const auto job = open_unchecked(scenario);
  auto quiet = start(scenario, job, 1, Layout{});
  ASSERT_TRUE(quiet->run(100'000));
  ASSERT_FALSE(quiet->failure()) << quiet->failure()->message();
  const uint64_t bad = quiet->host().planner_state().late_bad(0);
  ASSERT_GT(bad, 10u);
  for_each_seed({50}, [&](uint64_t seed) {
    auto cluster = start(scenario, job, seed, stormy(seed));
    const bool finished = cluster->run(100'000);
    ASSERT_EQ(checkers::undisturbed(*cluster, finished, scenario, quiet->stream_hash()),
              checkers::kKept);
    cluster->world().run_until([] { return false; }, 1'000'000);  // what is still on its way
    EXPECT_EQ(cluster->host().planner_state().late_bad(0), bad);
  });
}

// A constructor that starts after the stream has failed learns it too.
TEST(Restart, AFailureIsToldAgain) {
  for_each_seed({50}, [&](uint64_t seed) {
    Scenario scenario = spread_out();
    scenario.options.payload_budget_bytes = 1;  // nothing is kept: every step reads
    auto cluster = start(scenario, scenario.open(), seed, stormy(seed));
    ASSERT_TRUE(cluster->run(1)) << "hangs";
    for (const std::string& uri : scenario.spec.sources[0].files) {
      scenario.objects->put(uri, "something else");
    }
    ASSERT_TRUE(cluster->run(100'000)) << "hangs";
    ASSERT_EQ(checkers::same_end(*cluster, Code::kSourceChanged, false), checkers::kKept);
  });
}

TEST(Restart, AnExceededBudgetIsToldAgain) {
  const Scenario scenario = with_late_bad(3);
  const auto job = open_unchecked(scenario);
  const auto world = [&](uint64_t seed) {
    Layout layout = stormy(seed);
    layout.storm.kills = 100;
    auto cluster = start(scenario, job, seed, layout);
    ASSERT_TRUE(cluster->run(100'000)) << "hangs";
    ASSERT_EQ(checkers::same_end(*cluster, Code::kBudgetExceeded), checkers::kKept);
  };
  // At these a plan was on its way to the journal when the budget was exceeded.
  for_each_seed({100, {1449, 1713, 4347, 8090, 9942}}, world);
}

}  // namespace restart_test
}  // namespace overlord::sim
