#include "overlord/base/permutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "overlord/base/rng.h"

namespace overlord {
namespace {

std::vector<uint64_t> images(uint64_t n, uint64_t key) {
  const KeyedPermutation permutation(n, key);
  std::vector<uint64_t> out(n);
  for (uint64_t i = 0; i < n; ++i) out[i] = permutation(i);
  return out;
}

// Chi-square statistic times 1000 against a flat expectation.
int64_t chi_square_permille(const std::vector<int64_t>& counts) {
  const int64_t total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  const int64_t cells = static_cast<int64_t>(counts.size());
  int64_t sum = 0;
  for (int64_t count : counts) {
    const int64_t difference = count * cells - total;
    sum += difference * difference;
  }
  return sum * 1000 / (cells * total);
}

TEST(KeyedPermutation, IsABijectionOfEverySmallSize) {
  for (uint64_t n = 1; n <= 300; ++n) {
    for (uint64_t key = 0; key < 5; ++key) {
      auto out = images(n, key);
      std::sort(out.begin(), out.end());
      for (uint64_t i = 0; i < n; ++i) ASSERT_EQ(out[i], i) << "n " << n << " key " << key;
    }
  }
}

TEST(KeyedPermutation, InverseUndoesIt) {
  for (uint64_t n :
       {1ull, 2ull, 3ull, 1000ull, 1ull << 20, (1ull << 40) + 7, (1ull << 63) - 1, 1ull << 63}) {
    const KeyedPermutation permutation(n, 11);
    EXPECT_EQ(permutation.size(), n);
    for (uint64_t draw = 0; draw < 1000; ++draw) {
      const uint64_t i = uniform_below(5, draw, n, n);
      ASSERT_LT(permutation(i), n);
      ASSERT_EQ(permutation.inverse(permutation(i)), i);
      ASSERT_EQ(permutation(permutation.inverse(i)), i);
    }
  }
}

TEST(KeyedPermutation, DependsOnTheKeyAlone) {
  EXPECT_EQ(images(1000, 1), images(1000, 1));
  EXPECT_NE(images(1000, 1), images(1000, 2));
}

TEST(KeyedPermutation, NeverChanges) {
  // Golden: a change here changes the order of every source of every user.
  EXPECT_EQ(images(10, 7), (std::vector<uint64_t>{5, 1, 8, 6, 9, 0, 2, 3, 7, 4}));
  const KeyedPermutation large(1'000'000, 7);
  EXPECT_EQ(large(0), 505036u);
  EXPECT_EQ(large(999'999), 914243u);
}

TEST(KeyedPermutation, EachPositionIsEquallyLikely) {
  constexpr uint64_t kKeys = 20'000;
  for (uint64_t n : {2ull, 3ull, 5ull, 8ull, 13ull, 24ull}) {
    for (uint64_t i : {uint64_t{0}, n / 2, n - 1}) {
      std::vector<int64_t> counts(n);
      for (uint64_t key = 0; key < kKeys; ++key) ++counts[KeyedPermutation(n, key)(i)];
      // Mean n - 1, deviation sqrt(2 (n - 1)): five deviations above, over 18 cases.
      const int64_t freedom = static_cast<int64_t>(n) - 1;
      int64_t root = 1;
      while (root * root < 2 * freedom) ++root;
      EXPECT_LT(chi_square_permille(counts), 1000 * (freedom + 5 * root))
          << "n " << n << " i " << i;
    }
  }
}

TEST(KeyedPermutation, EveryOrderOfAFewThingsIsEquallyLikely) {
  constexpr uint64_t kKeys = 48'000;
  for (uint64_t n : {3ull, 4ull, 5ull}) {
    std::map<std::vector<uint64_t>, int64_t> orders;
    for (uint64_t key = 0; key < kKeys; ++key) ++orders[images(n, key)];
    std::vector<int64_t> counts;
    for (const auto& [order, count] : orders) counts.push_back(count);
    const int64_t expected = n == 3 ? 6 : n == 4 ? 24 : 120;
    EXPECT_EQ(static_cast<int64_t>(counts.size()), expected);
    EXPECT_LT(chi_square_permille(counts), 1000 * expected * 3) << "n " << n;
  }
}

TEST(KeyedPermutation, NeighboursPartCompany) {
  // Where i and i + 1 land must not be related: their distance is spread flat over [0, n).
  constexpr uint64_t kSize = 100'000;
  std::vector<int64_t> counts(16);
  for (uint64_t key = 0; key < 4; ++key) {
    const auto out = images(kSize, key);
    for (uint64_t i = 0; i + 1 < kSize; ++i) {
      ++counts[(out[i + 1] + kSize - out[i]) % kSize * 16 / kSize];
    }
  }
  EXPECT_LT(chi_square_permille(counts), 40'000);  // 15 degrees of freedom
}

TEST(KeyedPermutation, HasTheFixedPointsOfChance) {
  uint64_t fixed = 0;
  for (uint64_t key = 0; key < 400; ++key) {
    const auto out = images(1000, key);
    for (uint64_t i = 0; i < 1000; ++i) fixed += out[i] == i;
  }
  EXPECT_NEAR(static_cast<int64_t>(fixed), 400, 100);  // one per permutation on average
}

}  // namespace
}  // namespace overlord
