// Which feedback a state brings along, and how long it is kept.
#include "overlord/host/feedback_ledger.h"

#include <gtest/gtest.h>

namespace overlord::host {
namespace {

model::StepFeedback reported(StepIndex step, int64_t loss = 1) {
  return {step, {{0, loss, 1}}, {}};
}

protocol::ResumeState metric_driven(StepIndex next_step, uint32_t delay, StepIndex since = 0) {
  protocol::ResumeState state;
  state.state.next_step = next_step;
  state.state.controller.kind = model::ControllerKind::kOdm;
  state.state.controller.delay = delay;
  state.state.controller.since = since;
  return state;
}

TEST(FeedbackLedger, AStateNeedsTheStepsThatDoNotCountYet) {
  EXPECT_EQ(first_needed_feedback(metric_driven(10, 3).state), 7u);
  EXPECT_EQ(first_needed_feedback(metric_driven(2, 3).state), 0u) << "no steps before the first";
  EXPECT_EQ(first_needed_feedback(metric_driven(10, 8, 5).state), 5u) << "the controller is newer";
  EXPECT_EQ(first_needed_feedback(metric_driven(4, 8, 6).state), 4u) << "none of it counts";
  model::StreamState plain;
  plain.next_step = 10;
  plain.controller.delay = 3;
  EXPECT_EQ(first_needed_feedback(plain), 10u) << "no controller, no feedback";
}

TEST(FeedbackLedger, AttachesNoMoreAndNoLessThanThat) {
  FeedbackLedger ledger({reported(6), reported(7)});
  protocol::ResumeState state = metric_driven(9, 2);
  state.feedback = {reported(1)};  // of before
  EXPECT_EQ(ledger.attach(&state), StepIndex{8}) << "the first that is missing";
  ledger.add(reported(8));
  ledger.add(reported(9));
  EXPECT_FALSE(ledger.attach(&state).has_value());
  EXPECT_EQ(state.feedback, (std::vector{reported(7), reported(8)}));
}

TEST(FeedbackLedger, WhatIsSaidLastOfAStepHolds) {
  FeedbackLedger ledger({reported(3, 1)});
  ledger.add(reported(3, 2));
  ASSERT_NE(ledger.find(3), nullptr);
  EXPECT_EQ(*ledger.find(3), reported(3, 2));
  EXPECT_EQ(ledger.find(4), nullptr);
}

TEST(FeedbackLedger, ForgetsWhatLiesTooFarBehindAndKnowsThatItDid) {
  FeedbackLedger ledger({reported(0), reported(1)}, 4);
  ledger.add(reported(4));
  EXPECT_NE(ledger.find(0), nullptr) << "four steps behind are kept";
  EXPECT_FALSE(ledger.dropped(0));
  ledger.add(reported(5));
  EXPECT_EQ(ledger.find(0), nullptr);
  EXPECT_NE(ledger.find(1), nullptr);
  EXPECT_TRUE(ledger.dropped(0));
  EXPECT_FALSE(ledger.dropped(1));
  EXPECT_FALSE(ledger.dropped(2)) << "it never came: that is another thing";
}

}  // namespace
}  // namespace overlord::host
