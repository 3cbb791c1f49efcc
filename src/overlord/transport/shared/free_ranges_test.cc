#include "overlord/transport/shared/free_ranges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "overlord/base/rng.h"

namespace overlord::transport {
namespace {

TEST(FreeRanges, MergesWhatIsGivenBack) {
  FreeRanges ranges;
  ranges.add(1000, 100);
  const auto a = ranges.take(30), b = ranges.take(30), c = ranges.take(40);
  EXPECT_EQ(*a, 1000u);
  EXPECT_EQ(*b, 1030u);
  EXPECT_EQ(*c, 1060u);
  EXPECT_FALSE(ranges.take(1));
  ranges.give_back(*a, 30);
  ranges.give_back(*c, 40);
  EXPECT_EQ(ranges.count(), 2u);
  EXPECT_EQ(*ranges.take(30), 1000u);  // the smallest that fits
  ranges.give_back(1000, 30);
  ranges.give_back(*b, 30);
  EXPECT_EQ(ranges.count(), 1u);
  EXPECT_EQ(ranges.largest_bytes(), 100u);
}

TEST(FreeRanges, RemovesOnlyWhatIsWhollyFree) {
  FreeRanges ranges;
  ranges.add(1000, 100);
  ranges.add(2000, 100);
  EXPECT_EQ(*ranges.take(10), 1000u);
  EXPECT_FALSE(ranges.remove(1000, 100));
  EXPECT_TRUE(ranges.remove(2000, 100));
  EXPECT_EQ(ranges.free_bytes(), 90u);
}

TEST(FreeRangesDeathTest, AbortsWhenMemoryComesBackTwice) {
  FreeRanges ranges;
  ranges.add(1000, 100);
  EXPECT_DEATH(ranges.give_back(1050, 10), "twice");
  EXPECT_DEATH(ranges.give_back(990, 20), "twice");
}

// Against a map of single units: no overlap, nothing lost, everything merges in the end.
TEST(FreeRanges, AgreesWithAMapOfSingleUnits) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    uint64_t draws = 0;
    const auto below = [&](uint64_t n) { return uniform_below(seed, ++draws, 0, n); };
    FreeRanges ranges;
    constexpr size_t kRun = 200, kGap = 10, kRuns = 4;
    std::vector<int> owner(kRuns * (kRun + kGap), -1);  // -1 no memory, 0 free, else taken
    for (size_t run = 0; run < kRuns; ++run) {
      ranges.add(run * (kRun + kGap), kRun);
      for (size_t i = 0; i < kRun; ++i) owner[run * (kRun + kGap) + i] = 0;
    }
    std::vector<std::pair<uintptr_t, size_t>> taken;
    for (int turn = 1; turn < 400; ++turn) {
      if (below(2) == 0 || taken.empty()) {
        const size_t size = 1 + below(60);
        const bool fits = ranges.largest_bytes() >= size;
        const auto begin = ranges.take(size);
        ASSERT_EQ(begin.has_value(), fits);
        if (!begin) continue;
        for (size_t i = 0; i < size; ++i) {
          ASSERT_EQ(owner[*begin + i], 0);
          owner[*begin + i] = turn;
        }
        taken.emplace_back(*begin, size);
      } else {
        const size_t which = below(taken.size());
        const auto [begin, size] = taken[which];
        for (size_t i = 0; i < size; ++i) owner[begin + i] = 0;
        ranges.give_back(begin, size);
        taken.erase(taken.begin() + static_cast<long>(which));
      }
      ASSERT_EQ(ranges.free_bytes(),
                static_cast<uint64_t>(std::count(owner.begin(), owner.end(), 0)));
    }
    for (const auto& [begin, size] : taken) ranges.give_back(begin, size);
    EXPECT_EQ(ranges.count(), kRuns);
    EXPECT_EQ(ranges.largest_bytes(), kRun);
  }
}

}  // namespace
}  // namespace overlord::transport
