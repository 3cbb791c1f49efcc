// Ranks are lost and come back while a job runs. The steps that not everybody has are placed again
// for those that are there: the content as if nothing had happened, every rank what it would have
// had on a mesh of those ranks, whoever dies meanwhile.
#include <gtest/gtest.h>

#include "overlord/protocol/journal/journal_record.h"
#include "overlord/sim/scenario.h"
#include "simulation/checkers/progress.h"
#include "simulation/seeds.h"
#include "simulation/storms.h"

namespace overlord::sim {
namespace rank_changes_test {

constexpr uint64_t kSteps = 24;

using Axes = std::vector<model::Axis>;
using Ranks = std::vector<Rank>;
using Steps = std::map<StepIndex, std::vector<Digest>>;  // of a rank's microbatches

Scenario of_mesh(const Axes& axes) {
  Scenario scenario = Scenario::small();
  scenario.axes = axes;
  scenario.spec.bins = 8;
  scenario.spec.align = 8;
  scenario.spec.max_steps = kSteps;
  scenario.spec.sources[0].loaders = 2;
  return scenario;
}

Steps steps_of(SimCluster& cluster, Rank rank) {
  Steps out;
  for (const model::MicrobatchPtr& batch : cluster.delivered(rank).batches) {
    out[batch->core->step].push_back(batch->digest);
  }
  return out;
}

std::vector<Steps> undisturbed(const Axes& axes) {
  const Scenario scenario = of_mesh(axes);
  auto cluster = scenario.start(1);
  EXPECT_TRUE(cluster->run(kSteps));
  std::vector<Steps> out;
  for (const Rank rank : cluster->ranks()) out.push_back(steps_of(*cluster, rank));
  return out;
}

struct Held {  // a mesh and its ranks, from a step on
  StepIndex first = 0;
  const std::vector<Steps>* steps = nullptr;
  Ranks ranks = {0, 1, 2, 3};
};

// Every rank got the steps that it had a place in, once and as on the mesh that held then.
void check_seats(SimCluster* cluster, const std::vector<Held>& held) {
  ASSERT_FALSE(cluster->failure()) << cluster->failure()->message();
  for (const Rank rank : cluster->ranks()) {
    const Steps got = steps_of(*cluster, rank);
    for (StepIndex step = 0; step < kSteps; ++step) {
      const Held* at = &held.front();
      for (const Held& one : held) at = one.first <= step ? &one : at;
      const auto place = std::find(at->ranks.begin(), at->ranks.end(), rank);
      ASSERT_EQ(got.contains(step), place != at->ranks.end())
          << "rank " << rank << " step " << step;
      if (place == at->ranks.end()) continue;
      const auto& wanted = (*at->steps)[static_cast<size_t>(place - at->ranks.begin())];
      ASSERT_EQ(got.at(step), wanted.at(step)) << "rank " << rank << " step " << step;
    }
  }
}

Result<StepIndex> change(SimCluster& cluster, const Axes& axes, const Ranks& ranks,
                         std::optional<StepIndex> step = std::nullopt) {
  std::optional<Result<StepIndex>> answer;
  cluster.rebuild({*model::Mesh::make(axes), step, ranks},
                  [&](const Result<StepIndex>& first) { answer = first; });
  EXPECT_TRUE(cluster.world().run_until([&] { return answer.has_value(); }, 1'000'000)) << "hangs";
  return answer.value_or(Status(Code::kInternal, "no answer"));
}

const Axes kFour = {{"dp", 4}}, kTwo = {{"dp", 2}}, kPair = {{"dp", 1}, {"cp", 2}},
           kPairs = {{"dp", 2}, {"tp", 2}};

// Lost at any moment, alone or with another, found out while others are ahead; then all are back.
TEST(RankChanges, AreSeenByNobodyElseWhoeverDies) {
  const Scenario scenario = of_mesh(kFour);
  const auto job = scenario.open();
  const auto four = undisturbed(kFour), two = undisturbed(kTwo), pair = undisturbed(kPair),
             pairs = undisturbed(kPairs);
  auto plain = scenario.start(1);
  ASSERT_TRUE(plain->run(kSteps));
  uint64_t kills = 0, anew = 0;
  const uint64_t worlds = for_each_seed({120}, [&](uint64_t seed) {
    Layout layout = stormy(seed);
    layout.storm.rarity = 5 + seed % 40;
    layout.keeper.kills = seed % 3;
    Scenario varied = scenario;
    varied.options.prefetch_steps = 1 + static_cast<uint32_t>(seed % 3);
    varied.options.runway = 1 + static_cast<uint32_t>(seed / 3 % 4);
    varied.options.constructor_budget_bytes = seed % 5 == 0 ? 1 : 64 << 20;
    auto cluster =
        std::make_unique<SimCluster>(job, *scenario.objects, scenario.all_ranks(), varied.options,
                                     host::start_state(*job), seed, layout);
    ASSERT_TRUE(cluster->run(2 + seed % 3)) << "hangs";
    const Rank lost = static_cast<Rank>(seed % 4);
    Ranks left = {(lost + 1) % 4, (lost + 2) % 4};
    if (seed % 2 == 0) std::swap(left[0], left[1]);
    cluster->lose(lost);
    cluster->lose((lost + 3) % 4);
    // Somebody goes on as far as it gets, and has to come back.
    cluster->take_if_there(left[0], seed % 7);
    const StepIndex ahead = cluster->consumer(left[0]).place().next_step;
    const auto first = change(*cluster, seed % 4 < 2 ? kTwo : kPair, left);
    ASSERT_TRUE(first.ok()) << first.status().message();
    anew += ahead > *first ? 1 : 0;
    ASSERT_EQ(change(*cluster, seed % 4 < 2 ? kTwo : kPair, left).value(), *first) << "asked twice";
    ASSERT_TRUE(cluster->run(3 + seed % 4)) << "hangs";
    const auto back = change(*cluster, kPairs, {});
    ASSERT_TRUE(back.ok()) << back.status().message();
    ASSERT_TRUE(cluster->run(kSteps)) << "hangs";
    ASSERT_NO_FATAL_FAILURE(check_seats(
        cluster.get(), {{0, &four}, {*first, seed % 4 < 2 ? &two : &pair, left}, {*back, &pairs}}));
    for (const Rank rank : cluster->ranks()) {
      ASSERT_EQ(cluster->consumer(rank).content_chain(), plain->consumer(0).content_chain());
    }
    ASSERT_EQ(checkers::progress(*cluster, true), checkers::kKept);
    kills += cluster->sightings().kills;
  });
  if (worlds < 25) return;  // one of them, run again
  EXPECT_GT(kills, worlds);
  EXPECT_GT(anew, worlds / 10) << "steps that were read were read anew";
}

// Trainers know which step they have to repeat: one that all had, or one that nobody has begun.
TEST(RankChanges, CountFromTheStepThatIsNamed) {
  const Scenario scenario = of_mesh(kFour);
  const auto four = undisturbed(kFour), two = undisturbed(kTwo);
  for (const StepIndex step : {StepIndex{3}, StepIndex{5}, StepIndex{7}}) {
    auto cluster = scenario.start(7);
    ASSERT_TRUE(cluster->run(7));
    ASSERT_EQ(change(*cluster, kTwo, {3, 1}, step).value(), step);
    ASSERT_TRUE(cluster->run(kSteps));
    ASSERT_NO_FATAL_FAILURE(check_seats(cluster.get(), {{0, &four}, {step, &two, {3, 1}}}));
  }
}

TEST(RankChanges, WhatDoesNotFitIsRefusedWithValues) {
  const Scenario scenario = of_mesh(kFour);
  auto cluster = scenario.start(1);
  ASSERT_TRUE(cluster->run(12));
  const auto why = [&](const Axes& axes, const Ranks& ranks,
                       std::optional<StepIndex> step = std::nullopt) {
    const auto answer = change(*cluster, axes, ranks, step);
    return answer.ok() ? "taken" : answer.status().message();
  };
  EXPECT_NE(why({{"dp", 3}}, {0, 1, 2}).find("divide bins, got 8"), std::string::npos);
  EXPECT_NE(why(kTwo, {0, 1, 2}).find("name one rank"), std::string::npos);
  EXPECT_NE(why(kTwo, {0, 4}).find("0 to 3"), std::string::npos);
  EXPECT_NE(why(kTwo, {1, 1}).find("named twice"), std::string::npos);
  EXPECT_NE(why(kTwo, {0, 1}, 1).find("ranks can come and go at steps"), std::string::npos);
  ASSERT_TRUE(cluster->run(kSteps)) << "the job goes on";
}

}  // namespace rank_changes_test
}  // namespace overlord::sim
