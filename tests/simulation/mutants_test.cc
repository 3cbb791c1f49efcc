// Checkers are checked: each promise has a seeded bug that takes away what it rests on, and its own
// checker must notice, in some world. An invariant of the product that ends the process first does
// not count.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "overlord/sim/scenario.h"
#include "simulation/checkers/all.h"
#include "simulation/checkers/exactly_once.h"
#include "simulation/checkers/same_end.h"
#include "simulation/storms.h"

namespace overlord::sim {
namespace mutants_test {

using checkers::Breach;

struct Outcome {
  SimCluster& cluster;
  bool finished;
  const Scenario& scenario;
  const host::OpenJob& job;
  Digest expected;
};

struct Case {
  std::string name;
  Mutant mutant = Mutant::kNone;
  std::function<Breach(Outcome&)> checker;
  std::function<Layout(uint64_t)> layout;
  std::function<Scenario()> scenario = spread_out;
  uint64_t steps = kSteps;
};

// Planners die and wake early, so that others come after them.
Layout of_planners(uint64_t seed) {
  Layout layout;
  layout.split = true;
  layout.planner.kills = 8;
  layout.planner.rarity = 6 + seed % 20;
  layout.planner.sleep_ns = 400'000;
  return layout;
}

Layout split(uint64_t) {
  Layout layout;
  layout.split = true;
  return layout;
}

Layout with_late_sleepers(uint64_t seed) {
  Layout layout = of_planners(seed);
  layout.planner.kills = 1 + seed % 2;
  layout.planner.sleep_plans = 10;
  layout.planner.sleep_ns = 100'000;
  return layout;
}

Layout of_links(uint64_t seed) {
  Layout layout = split(seed);
  layout.cuts = {8, 10 + seed % 30, 1'000'000};
  return layout;
}

Layout on_a_broken_disk(uint64_t seed) {
  Layout layout = split(seed);
  layout.planner.failing_sync = 4 + seed % 8;
  return layout;
}

Breach is_fenced(Outcome& run) { return checkers::fenced(run.cluster); }
Breach is_undisturbed(Outcome& run) {
  return checkers::undisturbed(run.cluster, run.finished, run.scenario, run.expected);
}
Breach gets_on(Outcome& run) { return checkers::progress(run.cluster, run.finished); }

std::vector<Case> cases() {
  return {
      {"AJournalFencesNobody", Mutant::kJournalFencesNobody, is_fenced, of_planners},
      {"RolesHeedEarlierTerms", Mutant::kRolesHeedEarlierTerms, is_fenced, of_planners},
      {"APlannerWritesBehindTenPlansOfAnother", Mutant::kJournalFencesNobody, is_fenced,
       with_late_sleepers, spread_out, 30},
      {"NobodyPromises", Mutant::kNobodyPromises, gets_on, of_planners},
      {"APromotedSlotKeepsItsGeneration", Mutant::kPromotedKeepsGeneration, is_undisturbed, stormy,
       with_shadows},
      {"ADiskLies", Mutant::kDiskLies,
       [](Outcome& run) { return checkers::durable_first(run.cluster); }, split},
      {"AStepComesTwice", Mutant::kStepTwice,
       [](Outcome& run) {
         return checkers::exactly_once(run.cluster, run.scenario, run.job, {1, 1, 1});
       },
       split, [] { return until_dry(spread_out()); }, 100'000},
      {"OtherBytes", Mutant::kOtherBytes,
       [](Outcome& run) { return checkers::same_stream(run.cluster, run.expected); }, split},
      {"OneEndsEarlier", Mutant::kOneEndsEarlier,
       [](Outcome& run) { return checkers::same_end(run.cluster, Code::kResource); },
       on_a_broken_disk, spread_out, 100'000},
      {"PlansTooFarAhead", Mutant::kPlansTooFarAhead,
       [](Outcome& run) { return checkers::bounded(run.cluster, run.scenario); }, split},
      {"NobodySaysAgain", Mutant::kNobodySaysAgain, gets_on, of_links},
  };
}

class Mutants : public ::testing::TestWithParam<Case> {};

// In a process of its own: a mutant may do anything.
bool noticed(const std::function<bool()>& breach) {
  const pid_t child = fork();
  if (child == 0) {
    if (std::freopen("/dev/null", "w", stderr) == nullptr) std::_Exit(0);
    std::_Exit(breach() ? 42 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 42;
}

TEST_P(Mutants, AreNoticed) {
  const Case& one = GetParam();
  const Scenario scenario = one.scenario();
  const auto job = scenario.open();
  const Digest expected = quiet_hash(scenario, std::min<uint64_t>(one.steps, kSteps));
  const auto breach = [&](uint64_t seed, Mutant mutant) {
    Layout layout = one.layout(seed);
    layout.mutant = mutant;
    auto cluster = start(scenario, job, seed, layout);
    cluster->keep_batches = true;
    Outcome run{*cluster, cluster->run(one.steps), scenario, *job, expected};
    return one.checker(run).has_value();
  };
  constexpr uint64_t kWorlds = 100;
  uint64_t seed = 1;
  while (seed <= kWorlds && !noticed([&] { return breach(seed, one.mutant); })) ++seed;
  ASSERT_LE(seed, kWorlds) << "nobody notices";
  EXPECT_FALSE(noticed([&] { return breach(seed, Mutant::kNone); })) << "in a world without it";
}

INSTANTIATE_TEST_SUITE_P(Promises, Mutants, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace mutants_test
}  // namespace overlord::sim
