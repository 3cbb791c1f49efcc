// The stream is a pure function: the same bytes whatever the seed of the world, the number of
// threads' worth of interleavings, loaders, workers, prefetch, budgets and hosts.
#include <gtest/gtest.h>

#include <string>

#include "overlord/sim/scenario.h"
#include "simulation/seeds.h"

namespace overlord::sim {
namespace stream_test {

constexpr uint64_t kSteps = 6;

Digest hash_of(const Scenario& scenario, uint64_t seed) {
  auto cluster = scenario.start(seed);
  EXPECT_TRUE(cluster->run(kSteps)) << "hangs with seed " << seed;
  EXPECT_FALSE(cluster->failure().has_value()) << cluster->failure()->message();
  return cluster->stream_hash();
}

TEST(Stream, EverySeedOfTheWorldGivesTheSameHash) {
  const Scenario scenario = Scenario::small();
  const auto job = scenario.open();
  const Digest expected = hash_of(scenario, 0);
  for_each_seed({.usual = 200, .quiet = true}, [&](uint64_t seed) {
    SimCluster cluster(job, *scenario.objects, scenario.all_ranks(), scenario.options,
                       host::start_state(*job), seed);
    cluster.keep_batches = false;
    ASSERT_TRUE(cluster.run(kSteps)) << "hangs";
    ASSERT_EQ(cluster.stream_hash(), expected);
  });
}

TEST(Stream, AnotherJobSeedGivesAnotherHash) {
  EXPECT_NE(hash_of(Scenario::small(7), 1), hash_of(Scenario::small(8), 1));
}

TEST(Stream, LoadersWorkersPrefetchAndBudgetsDoNotMatter) {
  const Digest expected = hash_of(Scenario::small(), 1);
  for (uint64_t variant = 0; variant < 24; ++variant) {
    Scenario scenario = Scenario::small();
    for (model::Source& source : scenario.spec.sources) {
      source.loaders = 1 + static_cast<uint32_t>(variant % 3);
      source.workers = 1 + static_cast<uint32_t>(variant / 3 % 3);
    }
    scenario.options.prefetch_steps = 1 + static_cast<uint32_t>(variant % 4);
    scenario.options.runway = 1 + static_cast<uint32_t>(variant % 5);
    scenario.options.payload_budget_bytes = variant % 2 == 0 ? 1 : 64 << 20;
    scenario.options.constructor_budget_bytes = variant % 3 == 0 ? 1 : 64 << 20;
    EXPECT_EQ(hash_of(scenario, variant), expected) << "variant " << variant;
  }
}

TEST(Stream, OneRankHostsGiveTheHashOfOneHostOfAll) {
  Scenario scenario = Scenario::small();
  scenario.axes = {{"pp", 2}, {"dp", 2}, {"cp", 2}, {"tp", 2}};
  scenario.spec.align = 4;
  const Digest expected = hash_of(scenario, 3);
  const auto job = scenario.open();
  std::vector<Digest> hashes;
  Digest plans;
  for (const Rank rank : scenario.all_ranks()) {
    SimCluster cluster(job, *scenario.objects, {rank}, scenario.options, host::start_state(*job),
                       100 + rank);
    ASSERT_TRUE(cluster.run(kSteps));
    hashes.push_back(cluster.consumer(rank).rank_hash());
    plans = cluster.consumer(rank).plan_chain();
  }
  EXPECT_EQ(host::stream_hash(plans, hashes), expected);
}

TEST(Stream, ContentIsTheSameOnEveryMesh) {
  std::optional<Digest> expected;
  const std::vector<std::vector<model::Axis>> meshes = {
      {{"dp", 1}},
      {{"dp", 8}},
      {{"pp", 2}, {"dp", 2}, {"cp", 2}, {"tp", 2}},
      {{"tp", 2}, {"dp", 4}},
      {{"dp_replicate", 2}, {"dp_shard", 2}, {"cp", 2}},
  };
  for (const auto& axes : meshes) {
    Scenario scenario = Scenario::small();
    scenario.axes = axes;
    auto cluster = scenario.start(5);
    ASSERT_TRUE(cluster->run(kSteps));
    const Digest content = cluster->consumer(0).content_chain();
    if (!expected) expected = content;
    EXPECT_EQ(content, *expected);
  }
}

}  // namespace stream_test
}  // namespace overlord::sim
