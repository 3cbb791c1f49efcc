#include "overlord/host/consumer.h"

#include <gtest/gtest.h>

namespace overlord::host {
namespace {

client::ReadyStep step_of(StepIndex step, uint32_t microbatches, bool last = false) {
  auto plan = std::make_shared<model::Plan>();
  plan->step = step;
  plan->last = last;
  plan->content_hash = {step, 1};
  auto after = std::make_shared<model::StreamState>();
  after->next_step = step + 1;
  after->ended = last;
  plan->state_after = after;
  client::ReadyStep ready;
  ready.step = step;
  ready.plan = plan;
  for (uint32_t m = 0; m < microbatches; ++m) {
    auto batch = std::make_shared<model::Microbatch>();
    batch->digest = {step, m};
    ready.microbatches.push_back(batch);
  }
  return ready;
}

TEST(Consumer, ConsumedMeansReturned) {
  Consumer consumer{protocol::ResumeState()};
  EXPECT_EQ(consumer.take(), nullptr);
  consumer.feed(step_of(0, 2));
  EXPECT_EQ(consumer.state().microbatch, 0u);
  consumer.take();
  EXPECT_EQ(consumer.state().state.next_step, 0u);
  EXPECT_EQ(consumer.state().microbatch, 1u);
  EXPECT_FALSE(consumer.take_consumed().has_value());
  consumer.take();
  EXPECT_EQ(consumer.state().state.next_step, 1u);
  EXPECT_EQ(consumer.state().microbatch, 0u);
  EXPECT_EQ(consumer.take_consumed(), StepIndex{0});
  EXPECT_FALSE(consumer.take_consumed().has_value());
}

TEST(Consumer, PassesOverWhatWasReturnedBefore) {
  protocol::ResumeState base;
  base.microbatch = 2;
  Consumer consumer(base);
  EXPECT_EQ(consumer.state().microbatch, 2u) << "saved again before the first batch";
  consumer.feed(step_of(0, 3));
  EXPECT_EQ(consumer.take()->digest, (Digest{0, 2}));
  EXPECT_EQ(consumer.state().state.next_step, 1u);
}

TEST(Consumer, RefusesACountThatThisRankCannotHave) {
  protocol::ResumeState base;
  base.microbatch = 4;
  Consumer consumer(base);
  consumer.feed(step_of(0, 3));
  EXPECT_EQ(consumer.take(), nullptr);
  ASSERT_TRUE(consumer.failure().has_value());
  EXPECT_EQ(consumer.failure()->code(), Code::kStateMismatch);
}

TEST(Consumer, EndsWithTheLastStep) {
  Consumer consumer{protocol::ResumeState()};
  consumer.feed(step_of(0, 1, true));
  EXPECT_FALSE(consumer.ended());
  consumer.take();
  EXPECT_TRUE(consumer.ended());
  EXPECT_TRUE(consumer.state().state.ended);
}

TEST(Consumer, AFailureEndsItAndIsKept) {
  Consumer consumer{protocol::ResumeState()};
  client::ReadyStep failed;
  failed.failure = Status(Code::kBudgetExceeded, "too many");
  consumer.feed(failed);
  EXPECT_TRUE(consumer.ended());
  EXPECT_EQ(consumer.failure()->code(), Code::kBudgetExceeded);
}

TEST(StreamHash, DependsOnEveryRank) {
  const Digest plans{1, 2};
  EXPECT_NE(stream_hash(plans, {{1, 1}, {2, 2}}), stream_hash(plans, {{2, 2}, {1, 1}}));
  EXPECT_NE(stream_hash(plans, {{1, 1}}), stream_hash(plans, {{1, 1}, {2, 2}}));
}

}  // namespace
}  // namespace overlord::host
