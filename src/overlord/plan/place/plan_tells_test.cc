// What a plan tells besides where things go: how long its documents waited, and what would make the
// step faster.
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <utility>

#include "overlord/plan/cost/cost.h"
#include "overlord/plan/made_up_cost_test.h"
#include "overlord/plan/place/made_up_job_test.h"
#include "overlord/plan/place/place_tree.h"
#include "overlord/plan/place/plan_remedies.h"
#include "overlord/plan/select/step_selector.h"

namespace overlord::plan {
namespace {

MadeUpJob long_tailed(uint32_t window) {
  MadeUpJob job(256, 8);
  std::vector<uint32_t> lengths;
  for (uint64_t i = 0; i < 600; ++i) {
    const bool is_long = uniform_below(3, i, 0, 6) == 0;
    lengths.push_back(static_cast<uint32_t>(1 + uniform_below(3, i, 1, is_long ? 256 : 40)));
  }
  job.add(lengths, model::EndPolicy::kDrop);
  job.spec.window.steps = window;
  job.spec.window.max_delay = 2;
  job.spec.window.width = 8;
  job.spec.window.cost = quadratic_cost("tokens", 0, int64_t{1} << 32, int64_t{1} << 28);
  return job;
}

class DelayHistogram : public ::testing::TestWithParam<uint32_t> {};

TEST_P(DelayHistogram, CountsEverySegmentByWhatItWaited) {
  const MadeUpJob job = long_tailed(GetParam());
  const auto meta = job.post(1);
  const auto mesh = *model::Mesh::make({{"dp", 2}});
  const model::DeliverySpec delivery;
  const PlanInputs inputs{job.spec, mesh, delivery, make_views(mesh, delivery, 1), {}};
  StepSelector selector;
  Placer placer;
  model::StreamState state = initial_state(job.spec);
  uint64_t waited = 0;
  while (!state.ended) {
    auto selection = selector.step(job.spec, job.rows, state, meta);
    ASSERT_TRUE(selection.ok() && selection->content) << selection.status().message();
    const StepContent content = *selection->content;
    const auto plan = build_plan(inputs, state.next_step, std::move(*selection), &placer);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    ASSERT_EQ(plan->delays.size(), size_t{plan->max_delay} + 1);
    EXPECT_EQ(std::accumulate(plan->delays.begin(), plan->delays.end(), size_t{0}),
              content.segments.size());
    EXPECT_TRUE(content.segments.empty() || plan->delays.back() > 0);
    EXPECT_LE(plan->max_delay, job.spec.packing.max_delay_steps + (GetParam() > 1 ? 2 : 0));
    waited += content.segments.size() - plan->delays[0];
    state = *plan->state_after;
  }
  EXPECT_GT(waited, 0u) << "the case shows nothing";
}

INSTANTIATE_TEST_SUITE_P(Windows, DelayHistogram, ::testing::Values(1u, 4u));

TEST(DelayHistogram, CarriedDocumentsAgeStepByStep) {
  const MadeUpJob job = long_tailed(1);
  const auto steps = run_steps(job, 1000);
  ASSERT_TRUE(steps.ok());
  model::StreamState before = initial_state(job.spec);
  for (size_t k = 0; k < steps->size(); ++k) {
    const StepContent& content = (*steps)[k].content;
    for (size_t i = 0; i < content.segments.size(); ++i) {
      const model::Segment& segment = content.segments[i];
      StepIndex drawn = k;  // unless it was carried
      for (const model::Carried& carried : before.carried) {
        if (carried.id == segment.id && carried.first == segment.first) drawn = carried.drawn_step;
      }
      EXPECT_EQ(content.waits[i], k - std::min<StepIndex>(drawn, k));
    }
    before = (*steps)[k].after;
  }
}

// A window moves bins after they were selected, so the same steps without one tell what to expect.
TEST(DelayHistogram, AWindowAddsTheStepsABinMovedLater) {
  std::map<std::pair<uint64_t, uint32_t>, std::pair<StepIndex, uint32_t>> selected;
  const auto plain = run_steps(long_tailed(1), 1000);
  ASSERT_TRUE(plain.ok());
  for (StepIndex k = 0; k < plain->size(); ++k) {
    const StepContent& content = (*plain)[k].content;
    for (size_t i = 0; i < content.segments.size(); ++i) {
      const model::Segment& segment = content.segments[i];
      selected[{segment.id.position, segment.first}] = {k, content.waits[i]};
    }
  }
  const MadeUpJob job = long_tailed(4);
  const auto meta = job.post(1);
  StepSelector selector;
  model::StreamState state = initial_state(job.spec);
  uint64_t later = 0;
  while (!state.ended) {
    const auto selection = selector.step(job.spec, job.rows, state, meta);
    ASSERT_TRUE(selection.ok() && selection->content);
    const StepContent& content = *selection->content;
    for (size_t i = 0; i < content.segments.size(); ++i) {
      const model::Segment& segment = content.segments[i];
      const auto [step, wait] = selected.at({segment.id.position, segment.first});
      const StepIndex moved = state.next_step > step ? state.next_step - step : 0;
      EXPECT_EQ(content.waits[i], wait + moved);
      later += moved > 0;
    }
    state = selection->after;
  }
  EXPECT_GT(later, 0u) << "the case shows nothing";
}

TEST(PlanRemedies, SplittingTheLongSampleFreesTheStep) {
  // Four consumers, one atom as heavy as all others together.
  const LimitedStep step{{120, 10, 10, 10, 10, 10, 10, 10}, 120, 120, 4, 2};
  EXPECT_EQ(bound_when_split(step), 50) << "(190 - 120) / 4, rounded up to whole atoms, and 30";
  EXPECT_LT(bound_when_delayed(step), 130);
  EXPECT_GE(bound_when_delayed(step), 33);
}

TEST(PlanRemedies, WithEvenWorkNothingHelps) {
  const LimitedStep step{{10, 10, 10, 10}, 10, 2, 2, 2};
  EXPECT_GE(bound_when_split(step), 19);
  EXPECT_EQ(bound_when_delayed(step), 20);
}

}  // namespace
}  // namespace overlord::plan
