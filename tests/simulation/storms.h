// A job whose roles live in processes of their own, storms for it, and what must hold in each: the
// stream is the same, nothing is posted or placed twice, everything stays within its bounds.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "overlord/sim/scenario.h"

namespace overlord::sim {

inline constexpr uint64_t kSteps = 8;
inline constexpr int64_t kSecond = 1'000'000'000;

inline Scenario spread_out() {
  Scenario scenario = Scenario::small();
  scenario.axes = {{"dp", 2}, {"tp", 2}};
  scenario.spec.sources[0].loaders = 2;
  scenario.spec.sources[1].loaders = 2;
  return scenario;
}

inline Layout stormy(uint64_t seed) {
  Layout layout;
  layout.split = true;
  layout.loaders_together = 1 + static_cast<uint32_t>(seed % 3);
  layout.storm.kills = 1 + seed % 12;
  layout.storm.rarity = 10 + seed % 50;
  layout.planner.kills = seed % 4;
  layout.planner.rarity = 8 + seed % 40;
  return layout;
}

inline std::unique_ptr<SimCluster> start(const Scenario& scenario,
                                         const std::shared_ptr<const host::OpenJob>& job,
                                         uint64_t seed, const Layout& layout) {
  auto cluster =
      std::make_unique<SimCluster>(job, *scenario.objects, scenario.all_ranks(), scenario.options,
                                   host::start_state(*job), seed, layout);
  cluster->keep_batches = false;
  return cluster;
}

inline Digest quiet_hash(const Scenario& scenario, uint64_t steps) {
  auto cluster = scenario.start(1);
  EXPECT_TRUE(cluster->run(steps));
  EXPECT_FALSE(cluster->failure());
  return cluster->stream_hash();
}

inline void check_undisturbed(SimCluster* cluster, const Scenario& scenario,
                              const Digest& expected) {
  ASSERT_FALSE(cluster->failure()) << cluster->failure()->message();
  ASSERT_EQ(cluster->stream_hash(), expected);
  ASSERT_LT(cluster->world().longest_wait_ns(), kSecond);
  const Sightings seen = cluster->sightings();
  ASSERT_EQ(seen.repeated_generations, 0u);
  ASSERT_EQ(seen.unequal_reposts, 0u);
  // What a planner that comes back makes again it needs the metadata of again.
  ASSERT_LE(seen.reposts, 4 * seen.kills + 32 * seen.planner_kills)
      << "a restarted loader goes on where the posting stood";
  const uint64_t runway = scenario.options.plans_out();
  ASSERT_LE(seen.most_plans_kept, runway);
  ASSERT_LE(seen.most_steps_held, runway);
  ASSERT_LE(seen.most_payload_bytes, scenario.options.payload_budget_bytes);
}

}  // namespace overlord::sim
