// Slots of a source that come and go while the stream runs: who reads changes, and what is read
// does not (law 8), whatever dies meanwhile.
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <utility>

#include "overlord/base/rng.h"
#include "overlord/plan/partition/scaler.h"
#include "overlord/sim/scenario.h"
#include "simulation/checkers/all.h"
#include "simulation/menu.h"
#include "simulation/seeds.h"
#include "simulation/storms.h"

namespace overlord::sim {
namespace owners_test {

constexpr uint32_t kMostSlots = 5;

// Small windows: a change counts from one that is not granted yet.
Scenario growing(Scenario scenario) {
  for (model::Source& source : scenario.spec.sources) {
    source.most_loaders = kMostSlots;
    source.window_rows = 16;
  }
  return scenario;
}

// Every rank wishes something after every step.
void resize_often(SimCluster& cluster, const Scenario& scenario, uint64_t seed) {
  const auto sources = static_cast<uint32_t>(scenario.spec.sources.size());
  cluster.resizes = [sources, seed](Rank rank,
                                    StepIndex step) -> std::optional<protocol::SlotsWished> {
    const uint64_t drawn = random_u64(seed, step, rank);
    return protocol::SlotsWished{static_cast<uint32_t>(drawn % sources),
                                 1 + static_cast<uint32_t>(drawn / sources % kMostSlots)};
  };
}

uint64_t changes_of(SimCluster& cluster) {
  return cluster.host().planner_state().owners_version() - 1;
}

void storm(const Scenario& scenario, uint64_t seeds,
           const std::function<Layout(uint64_t)>& brewed) {
  const auto job = scenario.open();
  const Digest expected = quiet_hash(scenario, kSteps);
  uint64_t changes = 0;
  const uint64_t worlds = for_each_seed({seeds}, [&](uint64_t seed) {
    auto cluster = start(scenario, job, seed, brewed(seed));
    resize_often(*cluster, scenario, seed);
    const bool finished = cluster->run(kSteps);
    ASSERT_EQ(checkers::undisturbed(*cluster, finished, scenario, expected), checkers::kKept);
    changes += changes_of(*cluster);
  });
  EXPECT_GT(changes, worlds);
}

TEST(Owners, SlotsComeAndGoAndTheStreamIsTheSame) {
  const Scenario scenario = growing(Scenario::small());
  const Digest expected = quiet_hash(scenario, kSteps);
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    auto cluster = scenario.start(seed);
    resize_often(*cluster, scenario, seed);
    ASSERT_TRUE(cluster->run(kSteps)) << seed;
    ASSERT_EQ(cluster->stream_hash(), expected) << seed;
    EXPECT_GT(changes_of(*cluster), 0u) << seed;
  }
}

// Whoever reads nothing of a step is neither told nor asked, and whoever is told is asked.
TEST(Owners, SlotsThatReadNothingOfAStepHearNothingOfIt) {
  const Scenario scenario = growing(Scenario::small());
  for (const bool split : {false, true}) {
    Layout layout;
    layout.split = split;
    auto cluster = start(scenario, scenario.open(), 5, layout);
    resize_often(*cluster, scenario, 5);
    std::set<std::pair<StepIndex, protocol::Address>> told, asked;
    uint64_t answers = 0, empty = 0;
    const auto look = std::move(cluster->transport().on_sent);
    cluster->transport().on_sent = [&](const protocol::Envelope& envelope) {
      if (look) look(envelope);
      if (const auto* rows = std::get_if<protocol::RowsPlanned>(&envelope.message)) {
        told.emplace(rows->rows->step, envelope.to);
      } else if (const auto* fetch = std::get_if<protocol::Fetch>(&envelope.message)) {
        asked.emplace(fetch->step, envelope.to);
      } else if (const auto* payload = std::get_if<protocol::PayloadPtr>(&envelope.message)) {
        ++answers;
        empty += (*payload)->ordinals.empty() ? 1 : 0;
      }
    };
    ASSERT_TRUE(cluster->run(kSteps));
    EXPECT_EQ(empty, 0u) << "nobody is asked in vain";
    EXPECT_GT(answers, 0u);
    for (const auto& one : asked) EXPECT_TRUE(told.contains(one));
    EXPECT_LT(asked.size(), kSteps * kMostSlots * scenario.spec.sources.size() / 2);
  }
}

TEST(Owners, WhileProcessesAndPlannersDie) {
  storm(growing(spread_out()), 200, [](uint64_t seed) { return stormy(seed); });
}

TEST(Owners, WithShadowsAndKeepersThatDie) {
  storm(growing(with_shadows()), 150, [](uint64_t seed) {
    Layout layout = stormy(seed);
    layout.keeper.kills = seed % 3;
    return layout;
  });
}

TEST(Owners, InEveryWeather) {
  storm(growing(spread_out()), 200, [](uint64_t seed) { return of_many_kinds(seed); });
}

constexpr uint64_t kLong = 36;
constexpr StepIndex kTurn = 24;

// Weights that turn to the source of text, whose windows have to be read before they are known.
Scenario turning(Scenario scenario) {
  const SourceIndex text = static_cast<SourceIndex>(scenario.spec.sources.size()) - 1;
  std::vector<int64_t> before(scenario.spec.sources.size(), model::kWeightOne);
  std::vector<int64_t> after = before;
  before[text] /= 16;
  after[text] *= 8;
  scenario.spec.mixture.stages = {{0, before}, {kTurn, after}};
  scenario.options.scaling.interval_ms = 1;  // of virtual time, in which a step takes little
  return scenario;
}

std::vector<protocol::OwnersRecord> decisions_of(const SimCluster& cluster) {
  std::vector<protocol::OwnersRecord> out;
  for (const protocol::JournalRecord& record : cluster.journal().read()) {
    if (const auto* owners = std::get_if<protocol::OwnersRecord>(&record)) out.push_back(*owners);
  }
  return out;
}

TEST(Owners, WhatWasDecidedIsDecidedAgainFromTheJournal) {
  const Scenario scenario = turning(growing(Scenario::small()));
  const Digest expected = quiet_hash(scenario, kLong);
  std::map<model::ScaleRule, uint64_t> by_rule;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Scenario one = scenario;
    one.options.scaling.advise_only = seed % 4 == 0;
    auto cluster = one.start(seed);
    if (seed % 2 == 0) resize_often(*cluster, one, seed);
    ASSERT_TRUE(cluster->run(kLong)) << seed;
    ASSERT_EQ(cluster->stream_hash(), expected) << seed;
    for (const protocol::OwnersRecord& record : decisions_of(*cluster)) {
      const uint32_t decided =
          record.advised > 0 ? record.advised : record.owners.ranges.back().slots;
      const plan::ScaleDecision again = plan::decide(record.inputs);
      EXPECT_EQ(again.slots, decided) << seed << ": " << record.reason;
      if (record.inputs.rule != model::ScaleRule::kWish) {
        EXPECT_EQ(again.reason, record.reason);
      }
      ++by_rule[record.inputs.rule];
    }
  }
  EXPECT_GT(by_rule[model::ScaleRule::kWish], 0u);
  EXPECT_GT(by_rule[model::ScaleRule::kForesight], 0u);
  EXPECT_GT(by_rule[model::ScaleRule::kLoad], 0u);
}

TEST(Owners, SlotsAreThereWhenTheMixtureTurnsToASource) {
  Scenario scenario = turning(growing(Scenario::small()));
  scenario.options.scaling.interval_ms = 3'600'000;  // the scaler looks at nothing in this run
  uint64_t grown = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    auto cluster = scenario.start(seed);
    ASSERT_TRUE(cluster->run(kLong)) << seed;
    for (const protocol::OwnersRecord& record : decisions_of(*cluster)) {
      if (record.reason == "at the start") continue;
      EXPECT_EQ(record.owners.source + 1, scenario.spec.sources.size())
          << "nothing turns to others";
      EXPECT_EQ(record.inputs.rule, model::ScaleRule::kForesight);
      EXPECT_GE(record.inputs.step, kTurn);
      EXPECT_GT(record.owners.ranges.back().slots, 1u);
      ++grown;
    }
  }
  EXPECT_GT(grown, 10u) << "in most worlds its windows take long enough";
}

}  // namespace owners_test
}  // namespace overlord::sim
