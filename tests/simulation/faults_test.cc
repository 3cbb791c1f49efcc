// Every kind of fault of the menu, alone and in pairs: the stream is the same, or all ranks end
// before the same step for the reason that there is (reliability: the fault menu).
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "overlord/sim/scenario.h"
#include "simulation/checkers/all.h"
#include "simulation/checkers/exactly_once.h"
#include "simulation/checkers/same_end.h"
#include "simulation/menu.h"
#include "simulation/seeds.h"
#include "simulation/storms.h"

namespace overlord::sim {
namespace faults_test {

struct Job {
  Scenario scenario;
  std::shared_ptr<const host::OpenJob> open;
  Digest expected;
};

Job opened(const Scenario& scenario) {
  const auto job = open_unchecked(scenario);
  auto quiet = start(scenario, job, 1, Layout{});
  EXPECT_TRUE(quiet->run(kSteps));
  EXPECT_FALSE(quiet->failure());
  return {scenario, job, quiet->stream_hash()};
}

uint64_t landed(Kind kind, const Landed& all) {
  const auto sum = [&](std::initializer_list<Fault> faults) {
    uint64_t out = 0;
    for (const Fault fault : faults) out += all.of(fault);
    return out;
  };
  switch (kind) {
    case Kind::kCrash:
      return sum({Fault::kPlannerDies, Fault::kKeeperDies, Fault::kRoleDies, Fault::kRankDies});
    case Kind::kFreeze:
      return sum({Fault::kFreezes});
    case Kind::kSlow:
      return sum({Fault::kSlow});
    case Kind::kNetwork:
      return sum({Fault::kLinkHeld, Fault::kLinkCut});
    case Kind::kDisk:
      return sum({Fault::kDiskFull, Fault::kDiskLoses});
    case Kind::kMemory:
      return sum({Fault::kMemoryShort});
    case Kind::kStorage:
      return sum({Fault::kReadLate, Fault::kReadStuck});
    case Kind::kTime:
      return sum({Fault::kClockJumps});
    case Kind::kData:
      return sum({Fault::kBadRow});
  }
  return 0;
}

using Pair = std::pair<Kind, Kind>;

std::vector<Pair> alone_and_in_pairs() {
  std::vector<Pair> out;
  for (size_t a = 0; a < kNames.size(); ++a) {
    for (size_t b = a; b < kNames.size(); ++b) out.emplace_back(Kind(a), Kind(b));
  }
  return out;
}

std::string name_of(const Pair& pair) {
  const std::string first = kNames[static_cast<size_t>(pair.first)];
  if (pair.first == pair.second) return first;
  return first + "And" + kNames[static_cast<size_t>(pair.second)];
}

class Faults : public ::testing::TestWithParam<Pair> {};

TEST_P(Faults, TheStreamIsTheSame) {
  const auto [first, second] = GetParam();
  const bool data = first == Kind::kData || second == Kind::kData;
  const Job job = opened(data ? with_late_bad(1000) : spread_out());
  Landed all;
  const uint64_t worlds = for_each_seed({.usual = 6, .parts = 45}, [&](uint64_t seed) {
    Layout layout;
    layout.split = true;
    layout.loaders_together = 1 + static_cast<uint32_t>(seed % 3);
    brew(first, seed, &layout);
    if (second != first) brew(second, seed / 2, &layout);
    auto cluster = start(job.scenario, job.open, seed, layout);
    const bool finished = cluster->run(kSteps);
    ASSERT_EQ(checkers::undisturbed(*cluster, finished, job.scenario, job.expected),
              checkers::kKept);
    all += cluster->world().landed();
  });
  if (worlds < 6) return;  // one of them, run again
  EXPECT_GT(landed(first, all), 0u) << all.text();
  EXPECT_GT(landed(second, all), 0u) << all.text();
}

INSTANTIATE_TEST_SUITE_P(Menu, Faults, ::testing::ValuesIn(alone_and_in_pairs()),
                         [](const auto& info) { return name_of(info.param); });

// --- All of it at once ---------------------------------------------------------------------------

TEST(FaultsAtOnce, EveryDocumentComesOnce) {
  const Scenario scenario = until_dry(spread_out());
  const auto job = scenario.open();
  for_each_seed({30}, [&](uint64_t seed) {
    auto cluster = start(scenario, job, seed, of_many_kinds(seed * 7));
    cluster->keep_batches = true;
    ASSERT_EQ(checkers::progress(*cluster, cluster->run(100'000)), checkers::kKept);
    ASSERT_FALSE(cluster->failure()) << cluster->failure()->message();
    ASSERT_EQ(checkers::right_batches(*cluster, scenario, *job), checkers::kKept);
    ASSERT_EQ(checkers::exactly_once(*cluster, scenario, *job, {1, 1, 1}), checkers::kKept);
  });
}

TEST(FaultsAtOnce, WithShadows) {
  const Job job = opened(with_shadows());
  // The planner died while a keeper's word was lost on a link that was cut.
  for_each_seed({40, {27417018243542}}, [&](uint64_t seed) {
    auto cluster = start(job.scenario, job.open, seed, of_many_kinds(seed * 5));
    const bool finished = cluster->run(kSteps);
    ASSERT_EQ(checkers::undisturbed(*cluster, finished, job.scenario, job.expected),
              checkers::kKept);
  });
}

// --- Where it cannot go on -----------------------------------------------------------------------

class LastFault : public ::testing::TestWithParam<Kind> {};

// Planners live here: one that starts behind a failed sync finds another end, or none.
TEST_P(LastFault, AFailedSyncEndsAllRanks) {
  const Job job = opened(spread_out());
  for_each_seed({.usual = 6, .parts = 8}, [&](uint64_t seed) {
    Layout layout = of_many_kinds(0);
    brew(GetParam(), seed, &layout);
    layout.planner.kills = 0;
    layout.planner.failing_sync = 2 + seed % 8;
    auto cluster = start(job.scenario, job.open, seed, layout);
    ASSERT_EQ(checkers::progress(*cluster, cluster->run(100'000)), checkers::kKept);
    ASSERT_EQ(checkers::same_end(*cluster, Code::kResource), checkers::kKept);
  });
}

// A planner dies when it has told of it: the next one, whose journal knows nothing, hears it from
// those that were told. At 137 and 155 it went on, and waited for ranks that had ended.
TEST(FailedSync, IsHeardOfByTheNextPlannerToo) {
  const Job job = opened(spread_out());
  // At the last one its own word of it failed too, and it told of a later end.
  for_each_seed({40, {137, 155, 886914068089}}, [&](uint64_t seed) {
    Layout layout = of_many_kinds(0);
    layout.planner.kills = 1 + seed % 3;
    layout.planner.rarity = 20 + seed % 40;
    layout.planner.failing_sync = 2 + seed % 8;
    auto cluster = start(job.scenario, job.open, seed, layout);
    const bool finished = cluster->run(12);
    ASSERT_EQ(checkers::progress(*cluster, finished), checkers::kKept);
    if (cluster->failure()) {
      ASSERT_EQ(checkers::same_end(*cluster, Code::kResource), checkers::kKept);
    }
  });
}

// Ranks of a group that needs nothing of it may have got that step before the others hear.
TEST_P(LastFault, AFailedReadEndsAllRanks) {
  Scenario scenario = spread_out();
  scenario.options.payload_budget_bytes = 1;  // nothing is kept: every step reads
  const Job job = opened(scenario);
  for_each_seed({.usual = 6, .parts = 8}, [&](uint64_t seed) {
    Layout layout = of_many_kinds(0);
    brew(GetParam(), seed, &layout);
    layout.storage.failing_read = 10 + seed % 200;
    auto cluster = start(job.scenario, job.open, seed, layout);
    ASSERT_EQ(checkers::progress(*cluster, cluster->run(100'000)), checkers::kKept);
    ASSERT_EQ(checkers::same_end(*cluster, Code::kUnavailable, false), checkers::kKept);
    ASSERT_TRUE(cluster->quarantine().empty()) << "what cannot be read is no bad row";
  });
}

TEST_P(LastFault, AnExceededBudgetEndsAllRanks) {
  const Scenario scenario = with_late_bad(3);
  const auto job = open_unchecked(scenario);
  for_each_seed({.usual = 6, .parts = 8}, [&](uint64_t seed) {
    Layout layout = of_many_kinds(0);
    brew(GetParam(), seed, &layout);
    auto cluster = start(scenario, job, seed, layout);
    ASSERT_EQ(checkers::progress(*cluster, cluster->run(100'000)), checkers::kKept);
    ASSERT_EQ(checkers::same_end(*cluster, Code::kBudgetExceeded), checkers::kKept);
  });
}

INSTANTIATE_TEST_SUITE_P(Behind, LastFault,
                         ::testing::Values(Kind::kCrash, Kind::kFreeze, Kind::kSlow, Kind::kNetwork,
                                           Kind::kDisk, Kind::kMemory, Kind::kStorage, Kind::kTime),
                         [](const auto& info) { return kNames[static_cast<size_t>(info.param)]; });

}  // namespace faults_test
}  // namespace overlord::sim
