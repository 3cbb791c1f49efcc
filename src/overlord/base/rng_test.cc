#include "overlord/base/rng.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace overlord {
namespace {

using Words4 = std::array<uint32_t, 4>;

// The known answers that come with Random123 (kat_vectors, philox4x32 10).
TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words4{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Words4{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words4{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomU64, IsTheFirstTwoWordsOfTheCounterBlock) {
  EXPECT_EQ(random_u64(0, 0, 0, 0), 0xe169c58d6627e8d5u);
  EXPECT_EQ(random_u64(~0ull, ~0ull, ~0ull, 0), 0x41c83b0e408f276du);
}

TEST(RandomU64, EveryArgumentMatters) {
  std::set<uint64_t> seen;
  for (uint64_t key : {0ull, 1ull, 1ull << 32, 1ull << 63}) {
    for (uint64_t a : {0ull, 1ull, 1ull << 32}) {
      for (uint64_t b : {0ull, 1ull, 1ull << 32}) {
        for (uint64_t c : {0ull, 1ull, 1ull << 32}) seen.insert(random_u64(key, a, b, c));
      }
    }
  }
  EXPECT_EQ(seen.size(), 4u * 27u);
}

TEST(UniformBelow, StaysInRangeAndIsFlat) {
  constexpr uint64_t kCells = 7;
  constexpr uint64_t kDraws = 70'000;
  std::vector<int64_t> counts(kCells);
  for (uint64_t draw = 0; draw < kDraws; ++draw) {
    const uint64_t value = uniform_below(3, draw, 0, kCells);
    ASSERT_LT(value, kCells);
    ++counts[value];
  }
  int64_t square_sum = 0;
  for (int64_t count : counts) square_sum += (count - 10'000) * (count - 10'000);
  EXPECT_LT(square_sum / 10'000, 22);  // chi-square, 6 degrees of freedom, p = 0.001
}

TEST(UniformBelow, HandlesTheEndsOfTheRange) {
  for (uint64_t draw = 0; draw < 100; ++draw) {
    EXPECT_EQ(uniform_below(1, draw, 0, 1), 0u);
    EXPECT_LT(uniform_below(1, draw, 0, (1ull << 63) + 1), (1ull << 63) + 1);  // half are rejected
  }
}

TEST(UniformBelow, RejectsInsteadOfFolding) {
  // For n = 3 * 2^62 a third of the values would come twice as often without rejection.
  constexpr uint64_t kRange = 3ull << 62;
  int64_t even_thirds = 0;
  for (uint64_t draw = 0; draw < 30'000; ++draw) {
    even_thirds += uniform_below(9, draw, 1, kRange) % 3 == 0;
  }
  EXPECT_NEAR(even_thirds, 10'000, 350);
}

TEST(DeriveKey, TellsSeedTagAndNumberApart) {
  std::set<uint64_t> keys;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    for (const char* tag : {"", "order/a", "order/b", "mixture"}) {
      for (uint64_t n = 0; n < 4; ++n) keys.insert(derive_key(seed, tag, n));
    }
  }
  EXPECT_EQ(keys.size(), 64u);
}

TEST(DeriveKey, NeverChanges) {
  // Golden: a change here changes every stream of every user.
  EXPECT_EQ(derive_key(7, "order/web", 0), derive_key(7, "order/web"));
  EXPECT_EQ(derive_key(7, "order/web", 1), 12075273323167483880u);
}

}  // namespace
}  // namespace overlord
