// Every kind of fault of the menu, alone and in pairs: the stream is the same, or all ranks end
// before the same step for the reason that there is (reliability: the fault menu).
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "overlord/sim/scenario.h"
#include "simulation/seeds.h"
#include "simulation/storms.h"

namespace overlord::sim {
namespace faults_test {

enum class Kind { kCrash, kFreeze, kSlow, kNetwork, kDisk, kMemory, kStorage, kTime, kData };
constexpr std::array<const char*, 9> kNames = {"Crash",  "Freeze",  "Slow", "Network", "Disk",
                                               "Memory", "Storage", "Time", "Data"};

// Rows that are found bad when they are indexed, and others when somebody reads what was planned.
Scenario with_bad_rows() {
  Scenario scenario = spread_out();
  model::Source& source = scenario.spec.sources[0];
  source.vocabulary = 995;
  source.eod.reset();
  source.bad_rows_allowed = 1000;
  return scenario;
}

struct Job {
  Scenario scenario;
  std::shared_ptr<const host::OpenJob> open;
  Digest expected;
};

Job opened(const Scenario& scenario) {
  const auto mesh = model::Mesh::make(scenario.axes);
  auto job = open_in_memory(scenario.spec, scenario.delivery, *mesh, *scenario.objects, false);
  EXPECT_TRUE(job.ok()) << job.status().message();
  auto quiet = start(scenario, *job, 1, Layout{});
  EXPECT_TRUE(quiet->run(kSteps));
  EXPECT_FALSE(quiet->failure());
  return {scenario, *job, quiet->stream_hash()};
}

void brew(Kind kind, uint64_t seed, Layout* layout) {
  switch (kind) {
    case Kind::kCrash:
      layout->storm.kills = 1 + seed % 6;
      layout->planner.kills = seed % 3;
      layout->keeper.kills = seed / 3 % 3;
      layout->rank_deaths = {seed % 4, 30 + seed % 100, 400'000};
      return;
    case Kind::kFreeze:
      layout->freezes = {1 + seed % 6, 20 + seed % 60, 4'000'000};
      layout->keeper.watch_ns = 2'000'000;
      layout->planner.kills = 1 + seed % 2;
      return;
    case Kind::kSlow:
      layout->slow = {1 + seed % 6, 20 + seed % 60, 20'000'000};
      layout->keeper.watch_ns = 2'000'000;
      return;
    case Kind::kNetwork:
      layout->cuts = {1 + seed % 8, 10 + seed % 60, 1'000'000};
      return;
    case Kind::kDisk:
      layout->disk = {1 + seed % 4, 2 + seed % 6, 3'000'000};
      layout->planner.kills = std::max<uint64_t>(layout->planner.kills, 1);
      return;
    case Kind::kMemory:
      layout->memory = {1 + seed % 6, 20 + seed % 60, 0};
      return;
    case Kind::kStorage:
      layout->storage.late = {1 + seed % 8, 2 + seed % 20, 2'000'000};
      return;
    case Kind::kTime:
      layout->jumps = {1 + seed % 8, 10 + seed % 60, 1'000'000'000};
      layout->keeper.watch_ns = 2'000'000;
      return;
    case Kind::kData:
      return;
  }
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
  const Job job = opened(data ? with_bad_rows() : spread_out());
  Landed all;
  const uint64_t worlds = for_each_seed(8, [&](uint64_t seed) {
    Layout layout;
    layout.split = true;
    layout.loaders_together = 1 + static_cast<uint32_t>(seed % 3);
    brew(first, seed, &layout);
    if (second != first) brew(second, seed / 2, &layout);
    auto cluster = start(job.scenario, job.open, seed, layout);
    ASSERT_TRUE(cluster->run(kSteps)) << "hangs";
    ASSERT_NO_FATAL_FAILURE(check_undisturbed(cluster.get(), job.scenario, job.expected));
    all += cluster->world().landed();
  });
  if (worlds < 8) return;  // one of them, run again
  EXPECT_GT(landed(first, all), 0u) << all.text();
  EXPECT_GT(landed(second, all), 0u) << all.text();
}

INSTANTIATE_TEST_SUITE_P(Menu, Faults, ::testing::ValuesIn(alone_and_in_pairs()),
                         [](const auto& info) { return name_of(info.param); });

}  // namespace faults_test
}  // namespace overlord::sim
