// Seeds: the worlds that a storm is run in. `make test` runs the same few every time; `make soak`
// sets OVERLORD_SIM_SEEDS (how many, of every storm) and OVERLORD_SIM_FIRST (from which on). A
// world that fails is named in a line of its own, and the others are still run. Every hundredth
// seed is run twice, and both must be the same event by event; a storm in all of whose worlds no
// fault has landed fails. Test only.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "overlord/sim/faults.h"

namespace overlord::sim {
namespace seeds {

// So that a storm in which everything fails ends.
inline constexpr uint64_t kMostFailures = 10;
// Fewer worlds are some of them, run again: nothing is said of the storm as a whole.
inline constexpr uint64_t kStorm = 20;

inline std::optional<uint64_t> number_from(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return std::strtoull(text, nullptr, 10);
}

inline const ::testing::TestInfo& test() {
  return *::testing::UnitTest::GetInstance()->current_test_info();
}

inline std::string name_of_test() {
  return std::string(test().test_suite_name()) + "." + test().name();
}

inline constexpr uint64_t kTwiceEvery = 100;

inline Tally run(uint64_t seed, const std::function<void(uint64_t)>& world) {
  tally() = {};
  world(seed);
  return std::exchange(tally(), {});
}

inline bool fails(uint64_t seed, const std::function<void(uint64_t)>& world, Tally* all) {
  const int before = test().result()->total_part_count();
  {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Tally once = run(seed, world);
    all->simulated_ns += once.simulated_ns;
    all->landed += once.landed;
    if (seed % kTwiceEvery == 0) {
      EXPECT_EQ(run(seed, world).trace, once.trace) << "the same seed gave two runs";
    }
  }
  if (test().result()->total_part_count() == before) return false;
  std::printf("FAILING SEED %s %llu\n", name_of_test().c_str(),
              static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  return true;
}

// For tools/soak.sh.
inline void tell(uint64_t worlds, const Tally& all) {
  std::printf("STORMED %s %llu %lld %s\n", name_of_test().c_str(),
              static_cast<unsigned long long>(worlds), static_cast<long long>(all.simulated_ns),
              all.landed.text().c_str());
}

}  // namespace seeds

// What a storm is made of.
struct Storms {
  uint64_t usual = 0;                      // worlds of `make test`
  std::vector<uint64_t> once_failed = {};  // found something before: run every time
  uint64_t parts = 1;                      // of how many that share the seeds of a soak it is
  bool quiet = false;                      // it is of orders and delays: no fault need land
};

// Runs `world` once per seed. Returns how many were run: what the sightings of a storm are measured
// by.
inline uint64_t for_each_seed(const Storms& storm,
                              const std::function<void(uint64_t seed)>& world) {
  const std::optional<uint64_t> asked = seeds::number_from("OVERLORD_SIM_SEEDS");
  const uint64_t count = asked ? (*asked + storm.parts - 1) / storm.parts : storm.usual;
  if (asked == 0u) std::printf("STORM %s\n", seeds::name_of_test().c_str());  // asked for its name
  const uint64_t first = seeds::number_from("OVERLORD_SIM_FIRST").value_or(1);
  uint64_t failures = 0;
  Tally all;
  for (const uint64_t seed : storm.once_failed) {
    failures += seeds::fails(seed, world, &all) ? 1 : 0;
  }
  for (uint64_t i = 0; i < count && failures < seeds::kMostFailures; ++i) {
    failures += seeds::fails(first + i, world, &all) ? 1 : 0;
  }
  const uint64_t worlds = storm.once_failed.size() + count;
  if (asked && count > 0) seeds::tell(worlds, all);
  if (worlds >= seeds::kStorm && !storm.quiet) {
    EXPECT_GT(all.landed.total(), 0u) << "a storm in which nothing went wrong";
  }
  return worlds;
}

}  // namespace overlord::sim
