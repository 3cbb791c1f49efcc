#include "overlord/plan/partition/scaler.h"

#include <gtest/gtest.h>

namespace overlord::plan {
namespace {

using model::ScalingPolicy;

// The slots of a source after `intervals` of the same load, following all advice.
uint32_t settled(Scaler* scaler, IntervalLoad load, uint64_t busy_milli, int intervals) {
  for (int i = 0; i < intervals; ++i) {
    load.busy_milli = std::min<uint64_t>(busy_milli, 1000ull * load.slots * load.workers);
    for (const ScaleAdvice& advice : scaler->next({load})) load.slots = advice.decision.slots;
  }
  return load.slots;
}

TEST(Scaler, GrowsUntilWorkersAreNotFull) {
  Scaler scaler(ScalingPolicy::kMeasured);
  EXPECT_EQ(settled(&scaler, {.slots = 1, .most_slots = 16, .workers = 2}, 7000, 6), 5u);
}

TEST(Scaler, KnowsAShiftBeforeItComes) {
  Scaler scaler(ScalingPolicy::kMeasured);
  const IntervalLoad load{1, 32, 1, 350, 50, 900};
  const std::vector<ScaleAdvice> advice = scaler.next({load});
  ASSERT_EQ(advice.size(), 1u);
  EXPECT_EQ(advice[0].decision.slots, 9u);  // 0.35 x 18 / 0.7
  EXPECT_EQ(advice[0].decision.reason,
            "0.3 of 1 workers busy, asked for 50 thousandths and 900 soon: 9 slots");
}

TEST(Scaler, ATurnIsMetByWhatItsStepsCost) {
  model::ScaleInputs turn;
  turn.rule = model::ScaleRule::kForesight;
  turn.most_slots = 16;
  turn.share_now = 50;
  turn.share_soon = 900;
  turn.step = 30;
  turn.work_ns = 1'800'000'000;
  turn.all_work_ns = 2'000'000'000;
  turn.room = 16;
  EXPECT_EQ(decide(turn).slots, 15u) << "nine tenths of sixteen";
  turn.step_ns = 500'000'000;
  EXPECT_EQ(decide(turn).slots, 6u);  // 3.6 workers are seven tenths of 5.2
  EXPECT_EQ(decide(turn).reason,
            "step 30 asks 900 thousandths of it, after 50 now: 1800000 us of work in steps of "
            "500000 us: 6 slots");
  turn.slots = 9;
  EXPECT_EQ(decide(turn).slots, 9u) << "whether they are too many is seen when it has come";
  turn.slots = 1;
  turn.work_ns = 0;
  EXPECT_EQ(decide(turn).slots, 1u) << "nobody knows what it costs";
}

TEST(Scaler, WhatMovesByLossesCountsOnAverage) {
  Scaler scaler(ScalingPolicy::kMeasured);
  IntervalLoad load{2, 8, 1, 1400, 500, 0, true};
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(scaler.next({load}).empty()) << i;
  load.share_now = 1000;  // for a moment, in which workers are as busy as there are
  load.busy_milli = 1900;
  const std::vector<ScaleAdvice> advice = scaler.next({load});
  ASSERT_EQ(advice.size(), 1u);
  EXPECT_EQ(advice[0].inputs.share_soon, 650u);
  EXPECT_EQ(advice[0].decision.slots, 3u) << "four, were it to stay";
}

TEST(Scaler, ShrinksOnlyWhenItWasIdleForLong) {
  Scaler scaler(ScalingPolicy::kMeasured);
  const IntervalLoad busy{8, 8, 1, 5000};
  EXPECT_TRUE(scaler.next({busy}).empty());
  IntervalLoad idle{8, 8, 1, 100};
  for (int i = 0; i < 9; ++i) EXPECT_TRUE(scaler.next({idle}).empty()) << i;
  const std::vector<ScaleAdvice> advice = scaler.next({idle});
  ASSERT_EQ(advice.size(), 1u);
  EXPECT_EQ(advice[0].decision.slots, 1u);
}

TEST(Scaler, DoesNotSwing) {
  Scaler scaler(ScalingPolicy::kMeasured);
  IntervalLoad load{4, 8, 1, 0};
  for (int i = 0; i < 50; ++i) {  // between 2.0 and 2.7 workers busy: 3 or 4 slots would do
    load.busy_milli = i % 2 == 0 ? 2000 : 2700;
    EXPECT_TRUE(scaler.next({load}).empty()) << i;
  }
}

TEST(Scaler, NeverBelowOneNorBeyondTheMost) {
  Scaler scaler(ScalingPolicy::kMeasured);
  EXPECT_EQ(settled(&scaler, {.slots = 1, .most_slots = 3, .workers = 1}, 1'000'000, 30), 3u);
  EXPECT_EQ(settled(&scaler, {.slots = 3, .most_slots = 3, .workers = 1}, 0, 30), 1u);
}

TEST(Scaler, ThePapersRuleFollowsTheMovingAverageOfTheShare) {
  Scaler scaler(ScalingPolicy::kShare);
  std::vector<IntervalLoad> loads(4, IntervalLoad{2, 4, 1, 0, 250, 250});
  for (int i = 0; i < 20; ++i) {
    for (const ScaleAdvice& advice : scaler.next(loads))
      loads[advice.source].slots = advice.decision.slots;
  }
  EXPECT_EQ(loads[0].slots, 2u) << "an even share asks for nothing";
  loads[0].share_now = 900;
  loads[1].share_now = loads[2].share_now = loads[3].share_now = 33;
  for (int i = 0; i < 30; ++i) {
    for (const ScaleAdvice& advice : scaler.next(loads))
      loads[advice.source].slots = advice.decision.slots;
  }
  EXPECT_EQ(loads[0].slots, 4u);
  EXPECT_EQ(loads[1].slots, 1u);
}

}  // namespace
}  // namespace overlord::plan
