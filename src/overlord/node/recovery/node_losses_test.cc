#include "overlord/node/recovery/node_losses.h"

#include <gtest/gtest.h>

namespace overlord::node {
namespace {

constexpr int64_t kASecond = 1'000'000'000;

TEST(NodeLosses, WithoutRecoveryOneIsTheEnd) {
  NodeLosses losses({});
  const Status gone = losses.lost(1);
  EXPECT_EQ(gone.code(), Code::kUnavailable);
  EXPECT_NE(gone.message().find("node process"), std::string::npos);
  for (int beat = 0; beat < 100; ++beat) EXPECT_FALSE(losses.beat()) << "nobody takes its place";
}

TEST(NodeLosses, NodesThatDieBeforeTheyServeAreOneAbsence) {
  NodeLosses losses({60 * kASecond});
  EXPECT_FALSE(losses.missing());
  ASSERT_TRUE(losses.lost(5).ok());
  ASSERT_TRUE(losses.lost(9).ok());
  EXPECT_TRUE(losses.missing());
  EXPECT_EQ(losses.since_ns(), 5);
  losses.served();
  EXPECT_FALSE(losses.missing());
  ASSERT_TRUE(losses.lost(20).ok());
  EXPECT_EQ(losses.since_ns(), 20);
  EXPECT_EQ(losses.losses(), 3u);
}

TEST(NodeLosses, TooManyWithinAMinuteAreTheEnd) {
  NodeLosses losses({60 * kASecond, 10, 3});
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(losses.lost(i * kASecond).ok());
  EXPECT_NE(losses.lost(3 * kASecond).message().find("4 times within 60 s"), std::string::npos);
  NodeLosses slow({60 * kASecond, 10, 3});
  for (int i = 0; i < 9; ++i) ASSERT_TRUE(slow.lost(i * 30 * kASecond).ok()) << i;
}

TEST(NodeLosses, ANodeHangsWhenItAnswersNothing) {
  NodeLosses losses({60 * kASecond, 3});
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(losses.beat());
  losses.answered();
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(losses.beat());
  EXPECT_TRUE(losses.beat());
}

TEST(NodeLosses, OneThatHasNotAnsweredHangsWhenItsPulseStands) {
  NodeLosses losses({60 * kASecond, 3});
  for (int64_t beat = 1; beat < 20; ++beat) EXPECT_FALSE(losses.looked(beat)) << "slow, and lives";
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(losses.looked(19));
  EXPECT_TRUE(losses.looked(19));
  NodeLosses alone({});
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(alone.looked(7)) << "nobody takes its place";
}

TEST(NodeLosses, WhyNobodyCameNamesTheSettingAndTheReason) {
  const std::string text =
      not_back_in_time(3 * kASecond, Status(Code::kResource, "cannot start it")).message();
  EXPECT_NE(text.find("runtime.processes.recovery_seconds (3 s): cannot start it"),
            std::string::npos);
  EXPECT_EQ(not_back_in_time(kASecond, {}).message().find(": ;"), std::string::npos);
}

}  // namespace
}  // namespace overlord::node
