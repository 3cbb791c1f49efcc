#include "overlord/base/fixed_point.h"

#include <gtest/gtest.h>

namespace overlord {
namespace {

TEST(FixedPoint, RoundsAsTheNameSays) {
  EXPECT_EQ(mul_div_floor(7, 1, 2), 3);
  EXPECT_EQ(mul_div_ceil(7, 1, 2), 4);
  EXPECT_EQ(mul_div_floor(-7, 1, 2), -4);
  EXPECT_EQ(mul_div_ceil(-7, 1, 2), -3);
  EXPECT_EQ(mul_div_floor(-8, 1, 2), -4);
  EXPECT_EQ(mul_div_ceil(8, 1, 2), 4);
  EXPECT_EQ(mul_div_floor(0, 5, 3), 0);
}

TEST(FixedPoint, KeepsEveryBitOfTheProduct) {
  constexpr int64_t kBig = int64_t{1} << 62;
  EXPECT_EQ(mul_div_floor(kBig, kBig, kBig), kBig);
  EXPECT_EQ(mul_div_floor(kBig + 1, kBig, kBig), kBig + 1);
  EXPECT_EQ(mul_div_ceil(-kBig, 3, 4), -kBig / 4 * 3);
}

TEST(FixedPoint, RoundsUpToAUnit) {
  EXPECT_EQ(round_up(0, 8), 0u);
  EXPECT_EQ(round_up(1, 8), 8u);
  EXPECT_EQ(round_up(8, 8), 8u);
  EXPECT_EQ(round_up(9, 1), 9u);
}

TEST(FixedPointDeathTest, RefusesToOverflow) {
  constexpr int64_t kBig = int64_t{1} << 62;
  EXPECT_DEATH(mul_div_floor(kBig, kBig, 1), "64 bits");
  EXPECT_DEATH(mul_div_ceil(1, 1, 0), "not positive");
}

}  // namespace
}  // namespace overlord
