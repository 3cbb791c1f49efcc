// When a host that stands by takes over, and when it does not.
#include "overlord/node/hosts/lead_turn.h"

#include <gtest/gtest.h>

namespace overlord::node {
namespace lead_turn_test {

constexpr int64_t kSecond = 1'000'000'000;

TEST(LeadTurn, ALostLeadIsFollowedWhenAHostWithRanksCalls) {
  LeadTurn turn(0);
  turn.answered(3);
  EXPECT_FALSE(turn.asked(3, 100 * kSecond)) << "the lead is there, for us";
  turn.lost(100 * kSecond);
  EXPECT_FALSE(turn.asked(3, 100 * kSecond + LeadTurn::kGraceNs - 1)) << "it may come again";
  EXPECT_EQ(turn.asked(3, 100 * kSecond + LeadTurn::kGraceNs), 4u);
}

TEST(LeadTurn, ALeadThatComesAgainWhereItWasIsLeftAlone) {
  LeadTurn turn(0);
  turn.answered(3);
  turn.lost(kSecond);
  turn.answered(4);
  EXPECT_FALSE(turn.asked(4, 100 * kSecond));
  turn.lost(100 * kSecond);
  EXPECT_EQ(turn.asked(4, 200 * kSecond), 5u);
}

TEST(LeadTurn, OneThatAnotherHasTakenOverIsGivenTime) {
  LeadTurn turn(0);
  turn.answered(3);
  turn.lost(0);
  EXPECT_FALSE(turn.asked(4, 60 * kSecond)) << "another host is about to lead";
  EXPECT_FALSE(turn.asked(4, 60 * kSecond + LeadTurn::kStrangeNs - 1));
  EXPECT_EQ(turn.asked(4, 60 * kSecond + LeadTurn::kStrangeNs), 5u) << "and has died at once";
}

TEST(LeadTurn, WhereNobodyHasAnsweredTheFirstHasTimeToCome) {
  LeadTurn turn(kSecond);
  EXPECT_FALSE(turn.asked(0, kSecond + LeadTurn::kStrangeNs - 1));
  EXPECT_EQ(turn.asked(0, kSecond + LeadTurn::kStrangeNs), 1u);
}

}  // namespace lead_turn_test
}  // namespace overlord::node
