// The place tree rebuilt while a job runs: journalled first, effective at a step boundary. The
// stream goes on, its content as if nothing had happened; before the boundary every rank gets what
// it would have had on the old mesh, from it on what it would have had on the new, whoever dies.
#include <gtest/gtest.h>

#include "overlord/protocol/journal/journal_record.h"
#include "overlord/sim/scenario.h"
#include "simulation/checkers/progress.h"
#include "simulation/seeds.h"
#include "simulation/storms.h"

namespace overlord::sim {
namespace tree_test {

constexpr uint64_t kSteps = 24;

using Axes = std::vector<model::Axis>;

const Axes kFour = {{"dp", 4}}, kPairs = {{"dp", 2}, {"tp", 2}}, kSlices = {{"dp", 1}, {"cp", 4}},
           kStages = {{"pp", 2}, {"dp", 2}};

struct Journal {
  std::vector<protocol::PlanRecord> plans;
  std::vector<protocol::TreeRecord> trees;
  std::vector<StepIndex> plans_before;  // by tree record
};

Journal read(const SimCluster& cluster) {
  Journal out;
  for (const protocol::JournalRecord& record : cluster.journal().read()) {
    if (const auto* plan = std::get_if<protocol::PlanRecord>(&record)) out.plans.push_back(*plan);
    if (const auto* tree = std::get_if<protocol::TreeRecord>(&record)) {
      out.trees.push_back(*tree);
      // Those that nobody had heard of are made anew.
      std::erase_if(out.plans, [&](const auto& plan) { return plan.step >= tree->first_step; });
      out.plans_before.push_back(out.plans.size());
    }
  }
  return out;
}

Result<StepIndex> rebuild(SimCluster& cluster, const Axes& axes,
                          std::optional<StepIndex> step = std::nullopt) {
  std::optional<Result<StepIndex>> answer;
  cluster.rebuild({*model::Mesh::make(axes), step},
                  [&](const Result<StepIndex>& first) { answer = first; });
  EXPECT_TRUE(cluster.world().run_until([&] { return answer.has_value(); }, 1'000'000));
  return answer.value_or(Status(Code::kInternal, "no answer"));
}

Scenario of_mesh(const Axes& axes) {
  Scenario scenario = Scenario::small();
  scenario.axes = axes;
  scenario.spec.bins = 8;
  scenario.spec.align = 8;
  scenario.spec.max_steps = kSteps;
  scenario.spec.sources[0].loaders = 2;
  return scenario;
}

// Digests of a rank's microbatches, by step.
using Steps = std::map<StepIndex, std::vector<Digest>>;

Steps steps_of(SimCluster& cluster, Rank rank) {
  Steps out;
  for (const model::MicrobatchPtr& batch : cluster.delivered(rank).batches) {
    out[batch->core->step].push_back(batch->digest);
  }
  return out;
}

// What every rank gets where the mesh never changes.
std::vector<Steps> undisturbed(const Axes& axes) {
  const Scenario scenario = of_mesh(axes);  // has the objects that are read
  auto cluster = scenario.start(1);
  EXPECT_TRUE(cluster->run(kSteps));
  EXPECT_FALSE(cluster->failure());
  std::vector<Steps> out;
  for (const Rank rank : cluster->ranks()) out.push_back(steps_of(*cluster, rank));
  return out;
}

struct Held {  // a mesh, from a step on
  StepIndex first = 0;
  const std::vector<Steps>* steps = nullptr;
};

// Every rank got every step once, and as on the mesh that held then.
void check_seats(SimCluster* cluster, const std::vector<Held>& held, StepIndex begin = 0) {
  ASSERT_FALSE(cluster->failure()) << cluster->failure()->message();
  for (const Rank rank : cluster->ranks()) {
    const Steps got = steps_of(*cluster, rank);
    ASSERT_EQ(got.size(), kSteps - begin) << "rank " << rank;
    for (const auto& [step, digests] : got) {
      const Held* at = &held.front();
      for (const Held& one : held) at = one.first <= step ? &one : at;
      ASSERT_EQ(digests, (*at->steps)[rank].at(step)) << "rank " << rank << " step " << step;
    }
  }
}

TEST(Tree, ARebuildCountsFromAStepBoundaryOn) {
  const Scenario scenario = of_mesh(kFour);
  auto plain = scenario.start(1);
  ASSERT_TRUE(plain->run(kSteps));
  const Journal expected = read(*plain);
  const auto before = undisturbed(kFour), after = undisturbed(kPairs);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    auto cluster = scenario.start(seed);
    ASSERT_TRUE(cluster->run(3));
    const auto first = rebuild(*cluster, kPairs);
    ASSERT_TRUE(first.ok()) << first.status().message();
    ASSERT_TRUE(cluster->run(kSteps)) << "hangs with seed " << seed;
    const Journal journal = read(*cluster);
    ASSERT_EQ(journal.trees.size(), 1u);
    EXPECT_EQ(journal.trees[0].first_step, *first);
    EXPECT_GE(*first, 3u);
    ASSERT_LT(*first, kSteps);
    EXPECT_EQ(journal.trees[0].versions.tree, 2u);
    EXPECT_LE(journal.plans_before[0], *first) << "a plan of the new tree before its record";
    ASSERT_EQ(journal.plans.size(), expected.plans.size());
    for (StepIndex step = 0; step < kSteps; ++step) {
      EXPECT_EQ(journal.plans[step].content_hash, expected.plans[step].content_hash) << step;
      EXPECT_EQ(journal.plans[step].plan_hash == expected.plans[step].plan_hash, step < *first);
      EXPECT_EQ(journal.plans[step].versions.tree, step < *first ? 1u : 2u);
    }
    EXPECT_EQ(cluster->consumer(0).content_chain(), plain->consumer(0).content_chain());
    ASSERT_NO_FATAL_FAILURE(check_seats(cluster.get(), {{0, &before}, {*first, &after}}));
    cluster->world().run_until([] { return false; }, 1'000'000);  // what is still on its way
    for (const auto& [address, probe] : cluster->host().constructors()) {
      EXPECT_EQ(protocol::tree_of(address), 2u) << "those of the first tree have retired";
    }
  }
}

// Four processes of one rank each, dp=4 -> dp=2,tp=2 -> cp=4 -> pp=2,dp=2, while loaders and
// constructors die at any message.
TEST(Tree, TheStreamGoesOnOverChangesWhoeverDies) {
  const Scenario scenario = of_mesh(kFour);
  const auto job = scenario.open();
  const auto four = undisturbed(kFour), pairs = undisturbed(kPairs), slices = undisturbed(kSlices),
             stages = undisturbed(kStages);
  auto plain = scenario.start(1);
  ASSERT_TRUE(plain->run(kSteps));
  uint64_t kills = 0, retired = 0;
  const uint64_t worlds = for_each_seed({120}, [&](uint64_t seed) {
    Layout layout = stormy(seed);
    layout.storm.rarity = 5 + seed % 40;
    Scenario varied = scenario;
    varied.options.prefetch_steps = 1 + static_cast<uint32_t>(seed % 3);
    varied.options.runway = 1 + static_cast<uint32_t>(seed / 3 % 4);
    varied.options.constructor_budget_bytes = seed % 5 == 0 ? 1 : 64 << 20;
    auto cluster =
        std::make_unique<SimCluster>(job, *scenario.objects, scenario.all_ranks(), varied.options,
                                     host::start_state(*job), seed, layout);
    // One rank is ahead of the others, as far as it can be.
    ASSERT_TRUE(cluster->take(static_cast<Rank>(seed % 4), seed % 3)) << "hangs";
    const auto to_pairs = rebuild(*cluster, kPairs);
    ASSERT_TRUE(to_pairs.ok()) << to_pairs.status().message();
    // Two changes are declared before either is reached; the runway may be planned meanwhile.
    const StepIndex later = *to_pairs + 5 + seed % 2;
    ASSERT_EQ(rebuild(*cluster, kSlices, later).value(), later);
    ASSERT_TRUE(cluster->run(*to_pairs + 1 + seed % 4)) << "hangs";
    const auto to_stages = rebuild(*cluster, kStages);
    ASSERT_TRUE(to_stages.ok()) << to_stages.status().message();
    ASSERT_TRUE(cluster->run(kSteps)) << "hangs";
    ASSERT_NO_FATAL_FAILURE(check_seats(
        cluster.get(), {{0, &four}, {*to_pairs, &pairs}, {later, &slices}, {*to_stages, &stages}}));
    ASSERT_EQ(cluster->consumer(0).content_chain(), plain->consumer(0).content_chain());
    ASSERT_EQ(checkers::progress(*cluster, true), checkers::kKept);
    kills += cluster->sightings().kills;
    retired += cluster->sightings().retired;
  });
  if (worlds < 25) return;  // one of them, run again
  EXPECT_GT(kills, 2 * worlds);
  EXPECT_GT(retired, 5 * worlds);
}

// Ranks that all ask, each when it gets there, agree; and the one that is told last has its steps.
TEST(Tree, AskedByEveryRankItIsOneChange) {
  const Scenario scenario = of_mesh(kFour);
  auto cluster = scenario.start(5);
  std::vector<StepIndex> answers;
  for (int i = 0; i < 4; ++i) {
    cluster->host().rebuild_tree(
        {*model::Mesh::make(kPairs), std::nullopt},
        [&](const Result<StepIndex>& first) { answers.push_back(first.value()); });
  }
  ASSERT_TRUE(cluster->run(kSteps));
  ASSERT_EQ(answers.size(), 4u);
  for (const StepIndex first : answers) EXPECT_EQ(first, answers.front());
  EXPECT_EQ(rebuild(*cluster, kPairs).value(), answers.front()) << "long after";
  EXPECT_EQ(read(*cluster).trees.size(), 1u);
}

// A state from before or after the boundary resumes on any mesh, the change or no change ahead.
TEST(Tree, StatesOfBothSidesResume) {
  const Scenario scenario = of_mesh(kFour);
  const auto four = undisturbed(kFour), pairs = undisturbed(kPairs);
  for (const uint64_t saved : {2, 6}) {
    auto cluster = scenario.start(3);
    ASSERT_EQ(rebuild(*cluster, kPairs, 5).value(), 5u);
    ASSERT_TRUE(cluster->run(saved));
    const auto state = cluster->state(0);
    ASSERT_TRUE(state.has_value());
    for (const Rank rank : cluster->ranks()) {
      EXPECT_EQ(protocol::encode_resume_state(*cluster->state(rank)),
                protocol::encode_resume_state(*state));
    }
    const Scenario paired = of_mesh(kPairs);
    auto on_new = paired.resume(*state, 4);
    ASSERT_TRUE(on_new->run(kSteps));
    ASSERT_NO_FATAL_FAILURE(check_seats(on_new.get(), {{0, &pairs}}, saved));
    auto on_old = scenario.resume(*state, 4);
    const auto again = rebuild(*on_old, kPairs, saved + 4);
    ASSERT_TRUE(again.ok()) << again.status().message();
    ASSERT_TRUE(on_old->run(kSteps));
    ASSERT_NO_FATAL_FAILURE(check_seats(on_old.get(), {{0, &four}, {saved + 4, &pairs}}, saved));
    EXPECT_EQ(on_old->consumer(0).content_chain(), on_new->consumer(0).content_chain());
  }
}

TEST(Tree, WhatNeedsARestartIsRefusedAndTheJobGoesOn) {
  const Scenario scenario = of_mesh(kFour);
  auto cluster = scenario.start(1);
  ASSERT_TRUE(cluster->run(2));
  const auto more = rebuild(*cluster, {{"dp", 8}});
  EXPECT_NE(more.status().message().find("restart from a state"), std::string::npos);
  const auto early = rebuild(*cluster, kPairs, 1);
  EXPECT_NE(early.status().message().find("planned already"), std::string::npos);
  const auto declared = rebuild(*cluster, {{"dp", 1}, {"cp", 4}, {"tp", 1}, {"other", 1}}, 11);
  EXPECT_TRUE(declared.ok()) << declared.status().message();
  EXPECT_EQ(read(*cluster).trees.size(), 1u);
  EXPECT_TRUE(cluster->run(2));
  auto some = scenario.resume(host::start_state(*scenario.open()), 1, {0, 1});
  const auto alone = rebuild(*some, kPairs);
  EXPECT_NE(alone.status().message().find("serves 2 of 4"), std::string::npos)
      << alone.status().message();
}

}  // namespace tree_test
}  // namespace overlord::sim
