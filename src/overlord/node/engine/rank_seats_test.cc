// What a trainer is given, told and refused at the seat of its rank.
#include "overlord/node/engine/rank_seats.h"

#include <gtest/gtest.h>

#include "overlord/host/made_up_job_test.h"

namespace overlord::node {
namespace {

class StandingClock final : public runtime::Clock {
 public:
  int64_t now_ns() override { return now_ += 10; }

 private:
  int64_t now_ = 0;
};

// Rank 2 alone is hosted; the wiring writes down what it hears.
class Seated : public ::testing::Test {
 protected:
  RankSeats& make() {
    wiring_.consumed = [this](Rank, StepIndex step, uint32_t) { consumed_.push_back(step); };
    wiring_.probe = [this](Rank) -> client::ClientProbe& { return probe_; };
    wiring_.explain_wait = [](Rank rank, StepIndex step) {
      return Status(Code::kDeadline,
                    "rank " + std::to_string(rank) + " waits for step " + std::to_string(step));
    };
    seats_ = std::make_unique<RankSeats>(std::vector<Rank>{2}, protocol::ResumeState(), 8, clock_,
                                         wiring_);
    return *seats_;
  }
  void deliver(StepIndex step, uint32_t microbatches, bool last = false, uint32_t tree = 1) {
    auto plan = std::make_shared<model::Plan>();
    plan->step = step;
    plan->versions.tree = tree;
    plan->last = last;
    auto after = std::make_shared<model::StreamState>();
    after->next_step = step + 1;
    after->ended = last;
    plan->state_after = after;
    client::ReadyStep ready{step, plan, {}, {}};
    for (uint32_t m = 0; m < microbatches; ++m) {
      ready.microbatches.push_back(std::make_shared<model::Microbatch>());
    }
    seats_->deliver(2, std::move(ready));
  }

  StandingClock clock_;
  client::ClientProbe probe_;
  std::vector<StepIndex> consumed_;
  RankSeats::Wiring wiring_;
  std::unique_ptr<RankSeats> seats_;
};

TEST_F(Seated, AStepIsConsumedWithItsLastMicrobatch) {
  RankSeats& seats = make();
  deliver(0, 2);
  deliver(1, 1);
  EXPECT_NE(*seats.next(2, 0), nullptr);
  EXPECT_TRUE(consumed_.empty());
  EXPECT_NE(*seats.next(2, 0), nullptr);
  EXPECT_EQ(consumed_, std::vector<StepIndex>{0});
  EXPECT_EQ(seats.steps_waiting(2), 1u);
  EXPECT_NE(*seats.next(2, 0), nullptr);
  EXPECT_EQ(consumed_, (std::vector<StepIndex>{0, 1}));
  EXPECT_EQ(probe_.microbatches.load(), 3u);
  EXPECT_EQ(seats.wait_ns(2), 20u) << "two steps were waited for";
  EXPECT_EQ(seats.place(2).place().next_step, 2u);
}

// Others are lost: the steps from there on come again, also the one that it is in.
TEST_F(Seated, AStepThatIsPlacedAgainBeginsAnew) {
  RankSeats& seats = make();
  deliver(0, 1);
  deliver(1, 2);
  ASSERT_TRUE(seats.next(2, 0).ok());
  ASSERT_TRUE(seats.next(2, 0).ok());  // the first of two
  deliver(2, 1);                       // not asked for yet
  protocol::ResumeState before;
  before.state.next_step = 1;
  seats.restart(2, 2, before);
  deliver(2, 1);  // of the tree before, and late
  deliver(1, 3, false, 2);
  for (int microbatch = 0; microbatch < 3; ++microbatch) {
    ASSERT_TRUE(seats.next(2, 0).ok());
    EXPECT_EQ(seats.place(2).place().tree, 2u);
  }
  EXPECT_EQ(seats.place(2).place().next_step, 2u);
  EXPECT_EQ(consumed_, (std::vector<StepIndex>{0, 1}));
}

TEST_F(Seated, WhoWaitsInVainIsToldForWhat) {
  RankSeats& seats = make();
  deliver(0, 1);
  ASSERT_TRUE(seats.next(2, 0).ok());
  host::expect_refused(seats.next(2, 0).status(), "rank 2 waits for step 1", Code::kDeadline);
  host::expect_refused(seats.next(7, 0).status(), "rank 7 is not hosted by this engine");
  deliver(1, 1);
  EXPECT_TRUE(seats.next(2, 0).ok()) << "and may call again";
}

TEST_F(Seated, TheFirstReasonForTheEndHolds) {
  RankSeats& seats = make();
  deliver(0, 1);
  seats.close(Status(Code::kUnavailable, "the node died"));
  seats.close(Status(Code::kCancelled, "closed"));
  host::expect_refused(seats.next(2, 600'000).status(), "the node died", Code::kUnavailable);
  EXPECT_TRUE(seats.rule()->closed());
}

TEST_F(Seated, TheEndAndTheWaitCanBeRefused) {
  wiring_.may_wait = [] { return Status(Code::kResource, "too much is held"); };
  StepIndex ended = 0;
  wiring_.at_end = [&ended](const model::StreamState& state) {
    ended = state.next_step;
    return ended == 0 ? Status() : Status(Code::kBudgetExceeded, "late rows");
  };
  RankSeats& seats = make();
  host::expect_refused(seats.next(2, 0).status(), "too much is held", Code::kResource);
  wiring_.may_wait = {};
  RankSeats& others = make();
  deliver(0, 1, true);
  ASSERT_TRUE(others.next(2, 0).ok());
  host::expect_refused(others.next(2, 0).status(), "late rows", Code::kBudgetExceeded);
  EXPECT_EQ(ended, 1u);
  wiring_.at_end = {};
  RankSeats& plain = make();
  deliver(0, 1, true);
  ASSERT_TRUE(plain.next(2, 0).ok());
  EXPECT_EQ(*plain.next(2, 0), nullptr);
  EXPECT_EQ(*plain.next(2, 0), nullptr) << "an end stays one";
}

TEST_F(Seated, ABatchMayBeGivenOutAsAnother) {
  const auto copy = std::make_shared<model::Microbatch>();
  bool refuse = false;
  wiring_.give_out = [&](const model::MicrobatchPtr&) -> Result<model::MicrobatchPtr> {
    if (refuse) return Status(Code::kResource, "no room for a copy");
    return model::MicrobatchPtr(copy);
  };
  RankSeats& seats = make();
  deliver(0, 2);
  EXPECT_EQ(*seats.next(2, 0), copy);
  refuse = true;
  EXPECT_EQ(seats.next(2, 0).status().code(), Code::kResource);
}

TEST_F(Seated, OnlyAConsumedStepIsReportedAndItsOwnAnswerCounts) {
  RankSeats& deaf = make();
  host::expect_refused(deaf.report(2, {0, {}, {}}).status(), "nothing to report to");
  wiring_.metric_driven = true;
  std::vector<Rank> told;
  wiring_.tell_planner = [&](Rank rank, const protocol::Message& message) {
    ASSERT_TRUE(std::holds_alternative<protocol::Report>(message));
    told.push_back(rank);
    seats_->answer(2, {5, protocol::Verdict::kLate});  // of a report that was given up
    seats_->answer(2, {0, protocol::Verdict::kDuplicate});
  };
  RankSeats& seats = make();
  host::expect_refused(seats.report(2, {0, {}, {}}).status(), "rank 2 has not consumed step 0");
  deliver(0, 1);
  ASSERT_TRUE(seats.next(2, 0).ok());
  EXPECT_EQ(*seats.report(2, {0, {}, {}}), protocol::Verdict::kDuplicate);
  EXPECT_EQ(told, std::vector<Rank>{2});
  host::expect_refused(seats.report(7, {0, {}, {}}).status(), "rank 7 is not hosted");
  seats.close(Status(Code::kCancelled, "closed"));
  EXPECT_EQ(seats.report(2, {0, {}, {}}).status().code(), Code::kCancelled);
}

TEST_F(Seated, AReportWaitsAsLongAsTheDiskIsFull) {
  wiring_.metric_driven = true;
  wiring_.report_answer_ms = 0;
  wiring_.tell_planner = [](Rank, const protocol::Message&) {};
  int asked = 0;
  wiring_.planner_waits_for_disk = [&] {
    if (++asked == 3) seats_->answer(2, {0, protocol::Verdict::kAccepted});
    return true;
  };
  RankSeats& seats = make();
  deliver(0, 1);
  ASSERT_TRUE(seats.next(2, 0).ok());
  EXPECT_EQ(*seats.report(2, {0, {}, {}}), protocol::Verdict::kAccepted);
  EXPECT_EQ(asked, 3);
  wiring_.planner_waits_for_disk = [] { return false; };
  RankSeats& others = make();
  deliver(0, 1);
  ASSERT_TRUE(others.next(2, 0).ok());
  host::expect_refused(others.report(2, {0, {}, {}}).status(), "no answer", Code::kDeadline);
}

TEST_F(Seated, AFunctionIsAskedOnceAQuestionUntilItHasAnswered) {
  std::vector<protocol::CalloutTold> told;
  wiring_.tell_planner = [&](Rank rank, const protocol::Message& message) {
    EXPECT_EQ(rank, 2u);
    told.push_back(std::get<protocol::CalloutTold>(message));
  };
  RankSeats& seats = make();
  const protocol::CalloutAsked asked{7, std::make_shared<const model::CalloutRequest>()};
  seats.callout_asked(2, asked);
  seats.callout_asked(2, asked);
  const auto question = seats.callouts()->take(0);
  ASSERT_TRUE(question);
  EXPECT_FALSE(seats.callouts()->take(0)) << "somebody is at it";
  seats.callouts()->answer(question->number, std::vector<int64_t>{1, 2});
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].question, 7u);
  EXPECT_EQ(told[0].values, (std::vector<int64_t>{1, 2}));
  EXPECT_FALSE(told[0].failure);
  seats.callout_asked(2, asked);  // its answer was lost
  seats.callouts()->answer(seats.callouts()->take(0)->number,
                           Status(Code::kUserFunction, "raised"));
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[1].failure->message(), "raised");
  seats.callout_asked(2, asked);
  const auto late = seats.callouts()->take(0);
  seats.close(Status(Code::kCancelled, "closed"));
  seats.callouts()->answer(late->number, std::vector<int64_t>{1});
  EXPECT_EQ(told.size(), 2u) << "nobody is told anything any more";
}

}  // namespace
}  // namespace overlord::node
