// Epoch grain: weights hold for a whole epoch of the mixture and change only at its end; quotas are
// exact over it.
#include <gtest/gtest.h>

#include "overlord/plan/mix/mix_schedule.h"
#include "overlord/plan/place/made_up_job_test.h"

namespace overlord::plan {
namespace {

using model::Grain;
using model::kWeightOne;
using model::Ramp;

// Two sources; weights turn around from epoch 1 on.
MadeUpJob turning_job() {
  MadeUpJob job(64, 8);
  job.add(std::vector<uint32_t>(100, 16), model::EndPolicy::kRepeat, kWeightOne * 3);
  job.add(std::vector<uint32_t>(100, 16), model::EndPolicy::kRepeat, kWeightOne);
  job.spec.packing.method = model::Packing::kConcat;  // what is drawn is placed at once
  job.spec.mixture.grain = Grain::kEpoch;
  job.spec.mixture.stages.push_back({1, {kWeightOne, kWeightOne * 3}});
  return job;
}

uint64_t tokens_of(const std::vector<MadeUpStep>& steps, size_t first, size_t end, SourceIndex s) {
  const uint64_t before = first == 0 ? 0 : steps[first - 1].after.cursors[s].tokens;
  return steps[end - 1].after.cursors[s].tokens - before;
}

TEST(MixEpoch, AnEpochOfStepsHoldsItsQuotaExactly) {
  MadeUpJob job = turning_job();
  job.spec.mixture.epoch_steps = 5;
  ASSERT_TRUE(check_mixture(job.spec).ok());
  const auto steps = run_steps(job, 15, 40);
  ASSERT_TRUE(steps.ok()) << steps.status().message();
  const uint64_t epoch_tokens = 5 * 8 * 64;
  for (const size_t epoch : {0, 1, 2}) {
    const uint64_t first = tokens_of(*steps, epoch * 5, epoch * 5 + 5, 0);
    const uint64_t share = epoch == 0 ? 3 : 1;
    EXPECT_NEAR(static_cast<double>(first), static_cast<double>(epoch_tokens * share / 4), 32)
        << epoch;
  }
}

TEST(MixEpoch, WeightsStandStillInsideAnEpoch) {
  MadeUpJob job = turning_job();
  job.spec.mixture.stages[1].ramp = Ramp::kLinear;
  job.spec.mixture.stages[1].ramp_steps = 4;  // epochs
  job.spec.mixture.epoch_steps = 10;
  std::vector<int64_t> before, now;
  const std::vector<model::SourceCursor> cursors(2);
  for (StepIndex step = 0; step < 80; ++step) {
    const uint64_t epoch = epoch_at(job.spec.mixture, job.rows, cursors, step);
    EXPECT_EQ(epoch, step / 10);
    weights_at(job.spec, {step, 0, epoch}, &now);
    const bool ramps = step % 10 == 0 && epoch >= 2 && epoch <= 5;
    EXPECT_EQ(step > 0 && now != before, ramps) << step;
    before = now;
  }
  EXPECT_EQ(now, (std::vector<int64_t>{kWeightOne, kWeightOne * 3}));
}

TEST(MixEpoch, APassOverASourceIsAnEpoch) {
  MadeUpJob job = turning_job();
  job.spec.mixture.epoch_source = 0;
  ASSERT_TRUE(check_mixture(job.spec).ok());
  const auto steps = run_steps(job, 30, 40);
  ASSERT_TRUE(steps.ok()) << steps.status().message();
  size_t first = 0;  // the first step after the pass
  while (first < steps->size()) {
    const model::SourceCursor& cursor = (*steps)[first++].after.cursors[0];
    if (cursor.pass > 0 || cursor.position >= job.rows[0]) break;
  }
  ASSERT_LT(first + 4, steps->size());
  const double one = static_cast<double>(tokens_of(*steps, 0, first, 0)) /
                     static_cast<double>(tokens_of(*steps, 0, first, 1));
  EXPECT_NEAR(one, 3, 0.1) << "the step in which the pass ends still belongs to it";
  EXPECT_NEAR(static_cast<double>(tokens_of(*steps, first, first + 4, 1)),
              static_cast<double>(4 * 8 * 64 * 3 / 4), 32);
}

TEST(MixEpoch, MayAskNeverSaysNoInVain) {
  MadeUpJob job = turning_job();
  job.spec.mixture.stages[0].weights = {kWeightOne, 0};
  job.spec.mixture.epoch_steps = 10;
  EXPECT_FALSE(may_ask(job.spec.mixture, 1, 0, 9));
  EXPECT_TRUE(may_ask(job.spec.mixture, 1, 0, 10));
  job.spec.mixture.epoch_steps = 0;  // nobody knows when the pass ends
  EXPECT_TRUE(may_ask(job.spec.mixture, 1, 0, 0));
}

TEST(MixEpoch, RefusesAnEpochThatNeverEnds) {
  MadeUpJob job = turning_job();
  job.spec.mixture.epoch_source = 1;
  job.spec.mixture.stages[0].weights = {kWeightOne, 0};
  EXPECT_NE(check_mixture(job.spec).message().find("would never end"), std::string::npos);
  job.spec.mixture.epoch_source = 2;
  EXPECT_NE(check_mixture(job.spec).message().find("a source of the job"), std::string::npos);
  job.spec.mixture.epoch_source = 1;
  job.spec.mixture.stages = {{0, {kWeightOne, 0}}};
  EXPECT_TRUE(check_mixture(job.spec).ok()) << "one stage needs no end";
}

}  // namespace
}  // namespace overlord::plan
