// In whose name a mixing rule answers, and that nothing is said after the end.
#include "overlord/node/engine/rule_desk.h"

#include <gtest/gtest.h>

namespace overlord::node {
namespace {

struct TellingDesk {
  std::vector<std::pair<Rank, protocol::Message>> told;
  RuleDesk desk{[this](Rank rank, protocol::Message message) {
    told.emplace_back(rank, std::move(message));
  }};
};

TEST(RuleDesk, WeightsAreAReportOfTheRankThatWasAsked) {
  TellingDesk rule;
  rule.desk.ask(3, {7, {{0, 5, 1}}, {1}});
  const auto question = rule.desk.take(0);
  ASSERT_TRUE(question.has_value());
  EXPECT_EQ(*question, (model::StepFeedback{7, {{0, 5, 1}}, {1}}));
  EXPECT_FALSE(rule.desk.take(0).has_value());
  rule.desk.answer(7, std::vector<int64_t>{2, 3});
  ASSERT_EQ(rule.told.size(), 1u);
  EXPECT_EQ(rule.told[0].first, 3u);
  const auto* report = std::get_if<protocol::Report>(&rule.told[0].second);
  ASSERT_NE(report, nullptr);
  EXPECT_EQ(report->part, (model::StepFeedback{7, {}, {2, 3}})) << "weights alone";
}

TEST(RuleDesk, ARuleThatFailsFailsTheStream) {
  TellingDesk rule;
  rule.desk.ask(1, {7, {}, {}});
  rule.desk.answer(7, Status(Code::kUserFunction, "it threw"));
  ASSERT_EQ(rule.told.size(), 1u);
  const auto* failed = std::get_if<protocol::StreamFailed>(&rule.told[0].second);
  ASSERT_NE(failed, nullptr);
  EXPECT_EQ(failed->step, 7u);
  EXPECT_EQ(failed->status.code(), Code::kUserFunction);
}

TEST(RuleDesk, NothingIsAskedOrToldOnceItIsClosed) {
  TellingDesk rule;
  rule.desk.ask(1, {7, {}, {}});
  rule.desk.close();
  rule.desk.close();
  EXPECT_TRUE(rule.desk.closed());
  EXPECT_FALSE(rule.desk.take(60'000).has_value()) << "at once, however long one may wait";
  rule.desk.answer(7, std::vector<int64_t>{2, 3});
  EXPECT_TRUE(rule.told.empty());
}

}  // namespace
}  // namespace overlord::node
