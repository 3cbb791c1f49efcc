// Who is told what a user's function answered, and who is not.
#include "overlord/node/functions/callout_desk.h"

#include <gtest/gtest.h>

namespace overlord::node {
namespace {

struct HeardAnswers {
  std::vector<std::vector<int64_t>> values;
  std::vector<Code> failures;
  planner::CalloutDone done() {
    return [this](const Result<std::vector<int64_t>>& got) {
      if (got.ok()) values.push_back(*got);
      if (!got.ok()) failures.push_back(got.status().code());
    };
  }
};

model::CalloutRequest request_of(StepIndex step) {
  model::CalloutRequest request;
  request.step = step;
  return request;
}

TEST(CalloutDesk, QuestionsWaitInTheirOrderAndAnswersFindWhoAsked) {
  CalloutDesk desk;
  HeardAnswers first, second;
  desk.ask(request_of(4), first.done());
  desk.ask(request_of(5), second.done());
  const auto one = desk.take(0), two = desk.take(0);
  ASSERT_TRUE(one && two);
  EXPECT_EQ(one->request.step, 4u);
  EXPECT_EQ(two->request.step, 5u);
  EXPECT_FALSE(desk.take(0).has_value());
  desk.answer(two->number, Status(Code::kUserFunction, "it threw"));
  desk.answer(one->number, std::vector<int64_t>{1, 2});
  EXPECT_EQ(first.values, (std::vector<std::vector<int64_t>>{{1, 2}}));
  EXPECT_TRUE(first.failures.empty());
  EXPECT_EQ(second.failures, std::vector<Code>{Code::kUserFunction});
}

TEST(CalloutDesk, AnAnswerIsToldOnceAndToNobodyWhoDidNotAsk) {
  CalloutDesk desk;
  HeardAnswers heard;
  desk.ask(request_of(4), heard.done());
  const auto question = desk.take(0);
  ASSERT_TRUE(question.has_value());
  desk.answer(question->number + 1, std::vector<int64_t>{9});
  desk.answer(question->number, std::vector<int64_t>{1});
  desk.answer(question->number, std::vector<int64_t>{2});
  EXPECT_EQ(heard.values, (std::vector<std::vector<int64_t>>{{1}}));
}

TEST(CalloutDesk, NobodyIsToldAnythingOnceItIsClosed) {
  CalloutDesk desk;
  HeardAnswers heard;
  desk.ask(request_of(4), heard.done());
  const auto question = desk.take(0);
  desk.close();
  desk.close();
  desk.answer(question->number, std::vector<int64_t>{1});
  desk.ask(request_of(5), heard.done());
  EXPECT_FALSE(desk.take(600'000).has_value()) << "at once";
  desk.answer(question->number + 1, std::vector<int64_t>{1});
  EXPECT_TRUE(heard.values.empty());
  EXPECT_TRUE(heard.failures.empty());
}

}  // namespace
}  // namespace overlord::node
