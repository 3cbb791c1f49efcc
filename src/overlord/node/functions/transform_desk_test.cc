// How long a batch waits for a thread of Python, and what is said when none answers.
#include "overlord/node/functions/transform_desk.h"

#include <gtest/gtest.h>

#include <future>

namespace overlord::node {
namespace {

constexpr int64_t kLongNs = 600'000'000'000;

// Asks on a thread of its own.
std::future<Result<std::string>> asked_at(TransformDesk& desk, const std::string& function,
                                          bool binary = false) {
  return std::async(std::launch::async, [&desk, function, binary] {
    return desk.ask(function, {"ab", {1, 2}}, kLongNs, binary);
  });
}

TEST(TransformDesk, AnswersFindWhoAsked) {
  TransformDesk desk;
  auto first = asked_at(desk, "f@1");
  const auto one = desk.take(600'000);
  ASSERT_TRUE(one.has_value());
  EXPECT_EQ(one->function, "f@1");
  EXPECT_EQ(one->rows.row(1), "b");
  EXPECT_FALSE(one->binary);
  auto second = asked_at(desk, "g@1", true);
  const auto two = desk.take(600'000);
  ASSERT_TRUE(two.has_value());
  EXPECT_TRUE(two->binary);
  desk.answer(two->number + 7, std::string("of nobody"));
  desk.answer(two->number, std::string("two"));
  desk.answer(one->number, Status(Code::kUserFunction, "it threw"));
  EXPECT_EQ(*second.get(), "two");
  EXPECT_EQ(first.get().status().code(), Code::kUserFunction);
}

TEST(TransformDesk, AnAnswerThatComesTooLateIsDropped) {
  TransformDesk desk;
  EXPECT_EQ(desk.ask("f@1", {}, 0).status().code(), Code::kDeadline);
  const auto question = desk.take(0);
  ASSERT_TRUE(question.has_value());
  desk.answer(question->number, std::string("late"));
  EXPECT_EQ(desk.ask("f@1", {}, 0).status().code(), Code::kDeadline) << "not of this question";
}

TEST(TransformDesk, ClosingWakesThoseWhoWaitAndTurnsAwayTheRest) {
  TransformDesk desk;
  auto waiting = asked_at(desk, "f@1");
  ASSERT_TRUE(desk.take(600'000).has_value());
  desk.close();
  desk.close();
  EXPECT_EQ(waiting.get().status().code(), Code::kCancelled);
  EXPECT_EQ(desk.ask("f@1", {}, kLongNs).status().code(), Code::kCancelled);
  EXPECT_FALSE(desk.take(600'000).has_value());
}

TEST(TransformDesk, AThreadThatDoesNotAnswerIsTheFunctionsFault) {
  const auto desk = std::make_shared<TransformDesk>();
  DeskRunner hung(desk, "f@1", 1'000'000);
  const Status late = hung.run({}).status();
  EXPECT_EQ(late.code(), Code::kUserFunction);
  EXPECT_NE(late.message().find("did not answer within 1 ms"), std::string::npos);
  EXPECT_NE(late.message().find("lane=\"process\""), std::string::npos) << late.message();
  desk->close();
  EXPECT_EQ(hung.run({}).status().code(), Code::kCancelled) << "and closing is nobody's";
}

TEST(TransformDesk, AnAnswerThatIsNoneIsNotBelieved) {
  const auto desk = std::make_shared<TransformDesk>();
  DeskRunner runner(desk, "f@1", kLongNs);
  auto answer = std::async(std::launch::async, [&] { return runner.run({"a", {1}}).status(); });
  desk->answer(desk->take(600'000)->number, std::string("nonsense"));
  EXPECT_EQ(answer.get().code(), Code::kBadData);
}

}  // namespace
}  // namespace overlord::node
