#include "overlord/base/fixed_functions.h"

#include <gtest/gtest.h>

#include <cmath>

#include "overlord/base/rng.h"

namespace overlord {
namespace {

constexpr long double kClose = 1e-9L;

long double value(int64_t fixed) {
  return std::ldexp(static_cast<long double>(fixed), -kFixedBits);
}

TEST(FixedFunctions, ExpIsClose) {
  for (uint64_t i = 0; i < 20'000; ++i) {
    const auto x = static_cast<int64_t>(uniform_below(1, i, 0, uint64_t{46} << 32)) - (40LL << 32);
    const long double expected = std::exp(value(x));
    EXPECT_NEAR(value(fixed_exp(x)), expected, kClose * std::max(1.0L, expected)) << x;
  }
  EXPECT_EQ(fixed_exp(0), kFixedOne);
  EXPECT_EQ(fixed_exp(-100 * kFixedOne), 0);
}

TEST(FixedFunctions, LogIsClose) {
  for (uint64_t i = 0; i < 20'000; ++i) {
    const auto x = static_cast<int64_t>(random_u64(2, i) >> (1 + i % 62)) | 1;
    EXPECT_NEAR(value(fixed_log(x)), std::log(value(x)), kClose) << x;
    EXPECT_NEAR(value(fixed_log_of(static_cast<uint64_t>(x))),
                std::log(static_cast<long double>(x)), kClose);
  }
  EXPECT_EQ(fixed_log(kFixedOne), 0);
}

TEST(FixedFunctions, SqrtIsTheLargestThatFits) {
  for (uint64_t i = 0; i < 20'000; ++i) {
    const auto x = static_cast<int64_t>(random_u64(3, i) >> (1 + i % 62));
    const Int128 root = fixed_sqrt(x);
    const Int128 wide = Int128{x} << kFixedBits;
    EXPECT_TRUE(root * root <= wide && (root + 1) * (root + 1) > wide) << x;
  }
}

TEST(FixedFunctions, RaisedCosineIsCloseAndMirrored) {
  for (uint64_t i = 0; i < 20'000; ++i) {
    const uint64_t whole = 1 + (random_u64(4, i) >> (i % 63));
    const uint64_t part = whole == ~uint64_t{0} ? whole / 2 : uniform_below(5, i, 0, whole + 1);
    const long double share = static_cast<long double>(part) / static_cast<long double>(whole);
    const long double expected = (1 - std::cos(std::acos(-1.0L) * share)) / 2;
    EXPECT_NEAR(value(fixed_raised_cosine(part, whole)), expected, kClose) << part << "/" << whole;
    if (2 * Uint128{part} != whole) {
      EXPECT_EQ(fixed_raised_cosine(part, whole) + fixed_raised_cosine(whole - part, whole),
                kFixedOne);
    }
  }
  EXPECT_EQ(fixed_raised_cosine(0, 7), 0);
  EXPECT_EQ(fixed_raised_cosine(7, 7), kFixedOne);
}

// The same bits everywhere: these were computed once.
TEST(FixedFunctions, GoldenBits) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < 1'000; ++i) {
    const auto x = static_cast<int64_t>(uniform_below(6, i, 0, uint64_t{30} << 32)) - (20LL << 32);
    sum = sum * 31 + static_cast<uint64_t>(fixed_exp(x));
    sum = sum * 31 + static_cast<uint64_t>(fixed_log(1 + (x < 0 ? -x : x)));
    sum = sum * 31 + static_cast<uint64_t>(fixed_raised_cosine(i, 1'000));
  }
  EXPECT_EQ(sum, 11231678667571114349u);
}

}  // namespace
}  // namespace overlord
