// Jobs whose roles live in processes of their own, and storms for them; checkers/ has what must
// hold in each.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "overlord/sim/scenario.h"

namespace overlord::sim {

inline constexpr uint64_t kSteps = 8;

inline Scenario spread_out() {
  Scenario scenario = Scenario::small();
  scenario.axes = {{"dp", 2}, {"tp", 2}};
  scenario.spec.sources[0].loaders = 2;
  scenario.spec.sources[1].loaders = 2;
  return scenario;
}

inline Scenario with_shadows() {
  Scenario scenario = spread_out();
  for (model::Source& source : scenario.spec.sources) source.shadows = 1;
  scenario.spec.sources[1].shadows = 2;
  scenario.spec.sources[2].shadow = model::ShadowKind::kLean;
  return scenario;
}

// Every document of every source once, then the end.
inline Scenario until_dry(Scenario scenario) {
  for (model::Source& source : scenario.spec.sources) source.at_end = model::EndPolicy::kDrop;
  return scenario;
}

// Rows of the Megatron files with tokens that are too high: nobody has looked at them when their
// lengths, from the .idx files alone, are posted.
inline Scenario with_late_bad(uint32_t allowed) {
  Scenario scenario = spread_out();
  model::Source& source = scenario.spec.sources[0];
  source.vocabulary = 995;
  source.eod.reset();
  source.bad_rows_allowed = allowed;
  return scenario;
}

inline std::shared_ptr<const host::OpenJob> open_unchecked(const Scenario& scenario) {
  const auto mesh = model::Mesh::make(scenario.axes);
  auto job = open_in_memory(scenario.spec, scenario.delivery, *mesh, *scenario.objects, false);
  EXPECT_TRUE(job.ok()) << job.status().message();
  return *job;
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

}  // namespace overlord::sim
