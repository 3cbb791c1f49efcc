// Seeds: the worlds that a storm is run in. `make test` runs the same few every time; `make soak`
// sets OVERLORD_SIM_SEEDS (how many, of every storm) and OVERLORD_SIM_FIRST (from which on). A
// world that fails is named in a line of its own, and the others are still run. Test only.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace overlord::sim {
namespace seeds {

// So that a storm in which everything fails ends.
inline constexpr uint64_t kMostFailures = 10;

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

inline bool fails(uint64_t seed, const std::function<void(uint64_t)>& world) {
  const int before = test().result()->total_part_count();
  {
    SCOPED_TRACE("seed " + std::to_string(seed));
    world(seed);
  }
  if (test().result()->total_part_count() == before) return false;
  std::printf("FAILING SEED %s %llu\n", name_of_test().c_str(),
              static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  return true;
}

}  // namespace seeds

// Runs `world` once per seed; `once_failed` are seeds that found something before, run every time.
// Returns how many were run: what the sightings of a storm are measured by.
inline uint64_t for_each_seed(uint64_t usual, const std::function<void(uint64_t seed)>& world,
                              const std::vector<uint64_t>& once_failed = {}) {
  const uint64_t count = seeds::number_from("OVERLORD_SIM_SEEDS").value_or(usual);
  if (count == 0)
    std::printf("STORM %s\n", seeds::name_of_test().c_str());  // asked for their names
  const uint64_t first = seeds::number_from("OVERLORD_SIM_FIRST").value_or(1);
  uint64_t failures = 0;
  for (const uint64_t seed : once_failed) failures += seeds::fails(seed, world) ? 1 : 0;
  for (uint64_t i = 0; i < count && failures < seeds::kMostFailures; ++i) {
    failures += seeds::fails(first + i, world) ? 1 : 0;
  }
  return once_failed.size() + count;
}

}  // namespace overlord::sim
