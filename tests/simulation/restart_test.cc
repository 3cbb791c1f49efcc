// Loaders and constructors die at any message and start again: the stream goes on, the same bytes,
// each once, within bounds (reliability: one writer per slot, no late effect). Planner and clients
// live as long as the run.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "overlord/sim/scenario.h"
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
  const uint64_t worlds = for_each_seed(400, [&](uint64_t seed) {
    auto cluster = start(scenario, job, seed, stormy(seed));
    ASSERT_TRUE(cluster->run(kSteps)) << "hangs";
    ASSERT_NO_FATAL_FAILURE(check_undisturbed(cluster.get(), scenario, expected));
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
  for_each_seed(
      240,
      [&](uint64_t world) {
        const Knobs& knobs = variants[world % variants.size()];
        const uint64_t seed = world / variants.size();
        auto cluster = start(knobs.scenario, knobs.job, seed, stormy(seed));
        ASSERT_TRUE(cluster->take(static_cast<Rank>(seed % 4), seed % 5)) << "hangs";
        ASSERT_TRUE(cluster->run(100'000)) << "hangs";
        ASSERT_NO_FATAL_FAILURE(check_undisturbed(cluster.get(), knobs.scenario, knobs.expected));
      },
      {15240});
}

// Rows of the Megatron files with tokens that are too high: nobody has looked at them when their
// lengths, from the .idx files alone, are posted.
void allow_late_bad(uint32_t allowed, Scenario* scenario) {
  model::Source& source = scenario->spec.sources[0];
  source.vocabulary = 995;
  source.eod.reset();
  source.bad_rows_allowed = allowed;
}

std::shared_ptr<const host::OpenJob> open_unchecked(const Scenario& scenario) {
  const auto mesh = model::Mesh::make(scenario.axes);
  auto job = open_in_memory(scenario.spec, scenario.delivery, *mesh, *scenario.objects, false);
  EXPECT_TRUE(job.ok()) << job.status().message();
  return *job;
}

// Every document of every source once, to the end of the stream; rows found bad after they were
// planned are told again by the next generation and count once.
TEST(Restart, EndsOnTheSameStepAndCountsLateBadRowsOnce) {
  Scenario scenario = spread_out();
  for (model::Source& source : scenario.spec.sources) source.at_end = model::EndPolicy::kDrop;
  allow_late_bad(1000, &scenario);
  const auto job = open_unchecked(scenario);
  auto quiet = start(scenario, job, 1, Layout{});
  ASSERT_TRUE(quiet->run(100'000));
  ASSERT_FALSE(quiet->failure()) << quiet->failure()->message();
  const uint64_t bad = quiet->host().planner_state().late_bad(0);
  ASSERT_GT(bad, 10u);
  for_each_seed(50, [&](uint64_t seed) {
    auto cluster = start(scenario, job, seed, stormy(seed));
    ASSERT_TRUE(cluster->run(100'000)) << "hangs";
    ASSERT_NO_FATAL_FAILURE(check_undisturbed(cluster.get(), scenario, quiet->stream_hash()));
    cluster->world().run_until([] { return false; }, 1'000'000);  // what is still on its way
    EXPECT_EQ(cluster->host().planner_state().late_bad(0), bad);
  });
}

// A constructor that starts after the stream has failed learns it too.
TEST(Restart, AFailureIsToldAgain) {
  for_each_seed(50, [&](uint64_t seed) {
    Scenario scenario = spread_out();
    scenario.options.payload_budget_bytes = 1;  // nothing is kept: every step reads
    auto cluster = start(scenario, scenario.open(), seed, stormy(seed));
    ASSERT_TRUE(cluster->run(1)) << "hangs";
    for (const std::string& uri : scenario.spec.sources[0].files) {
      scenario.objects->put(uri, "something else");
    }
    ASSERT_TRUE(cluster->run(100'000)) << "hangs";
    for (const Rank rank : cluster->ranks()) {
      ASSERT_TRUE(cluster->consumer(rank).failure()) << "rank " << rank;
      EXPECT_EQ(cluster->consumer(rank).failure()->code(), Code::kSourceChanged);
    }
  });
}

TEST(Restart, AnExceededBudgetIsToldAgain) {
  Scenario scenario = spread_out();
  allow_late_bad(3, &scenario);
  const auto job = open_unchecked(scenario);
  // Seeds at which a plan was on its way to the journal when the budget was exceeded.
  const std::vector<uint64_t> once_failed = {1449, 1713, 4347, 8090, 9942};
  const auto world = [&](uint64_t seed) {
    Layout layout = stormy(seed);
    layout.storm.kills = 100;
    auto cluster = start(scenario, job, seed, layout);
    ASSERT_TRUE(cluster->run(100'000)) << "hangs";
    const StepIndex end = cluster->consumer(0).state().state.next_step;
    for (const Rank rank : cluster->ranks()) {
      ASSERT_TRUE(cluster->consumer(rank).failure()) << "rank " << rank;
      EXPECT_EQ(cluster->consumer(rank).failure()->code(), Code::kBudgetExceeded);
      EXPECT_EQ(cluster->consumer(rank).state().state.next_step, end) << "all before one step";
    }
  };
  for_each_seed(100, world, once_failed);
}

TEST(Restart, TheSameSeedReplaysEventByEvent) {
  const Scenario scenario = spread_out();
  const auto job = scenario.open();
  auto first = start(scenario, job, 11, stormy(11));
  auto second = start(scenario, job, 11, stormy(11));
  ASSERT_TRUE(first->run(kSteps));
  ASSERT_TRUE(second->run(kSteps));
  EXPECT_EQ(first->world().events(), second->world().events());
  EXPECT_EQ(first->world().now_ns(), second->world().now_ns());
  EXPECT_EQ(first->sightings().lies, second->sightings().lies);
}

}  // namespace restart_test
}  // namespace overlord::sim
