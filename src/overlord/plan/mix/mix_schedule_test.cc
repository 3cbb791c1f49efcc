#include "overlord/plan/mix/mix_schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "overlord/plan/place/made_up_job_test.h"

namespace overlord::plan {
namespace {

using model::kWeightOne;
using model::Ramp;

model::JobSpec two_sources() {
  model::JobSpec spec;
  spec.context = 64;
  spec.bins = 8;
  spec.sources.resize(2);
  spec.sources[0].name = "code";
  spec.sources[1].name = "web";
  spec.mixture.stages = {{0, {kWeightOne, 0}}};
  return spec;
}

std::vector<int64_t> at(const model::JobSpec& spec, StepIndex step, uint32_t substep = 0) {
  EXPECT_TRUE(check_mixture(spec).ok()) << check_mixture(spec).message();
  std::vector<int64_t> weights;
  weights_at(spec, {step, substep, 0, nullptr}, &weights);
  return weights;
}

TEST(MixSchedule, StagesHoldFromTheirFirstStep) {
  model::JobSpec spec = two_sources();
  spec.mixture.stages.push_back({10, {0, kWeightOne}});
  EXPECT_EQ(at(spec, 9), (std::vector<int64_t>{kWeightOne, 0}));
  EXPECT_EQ(at(spec, 10), (std::vector<int64_t>{0, kWeightOne}));
}

TEST(MixSchedule, ALinearRampIsExact) {
  model::JobSpec spec = two_sources();
  spec.mixture.stages.push_back({10, {0, kWeightOne}, Ramp::kLinear, 8});
  EXPECT_EQ(at(spec, 10)[1], 0) << "a ramp begins with the old weights";
  EXPECT_EQ(at(spec, 12)[1], kWeightOne / 4);
  EXPECT_EQ(at(spec, 14), (std::vector<int64_t>{kWeightOne / 2, kWeightOne / 2}));
  EXPECT_EQ(at(spec, 18)[0], 0) << "and ends with the new ones";
}

TEST(MixSchedule, ACosineRampFollowsTheCosine) {
  model::JobSpec spec = two_sources();
  spec.mixture.stages.push_back({100, {0, kWeightOne}, Ramp::kCosine, 1000});
  int64_t before = -1;
  for (StepIndex step = 100; step <= 1100; ++step) {
    const std::vector<int64_t> weights = at(spec, step);
    const long double share = static_cast<long double>(step - 100) / 1000;
    const long double expected = (1 - std::cos(std::acos(-1.0L) * share)) / 2;
    EXPECT_NEAR(static_cast<long double>(weights[1]) / kWeightOne, expected, 1e-9L) << step;
    EXPECT_GT(weights[1], before);
    before = weights[1];
  }
}

TEST(MixSchedule, SubstepsMayHaveWeightsOfTheirOwn) {
  model::JobSpec spec = two_sources();
  spec.substeps = 4;
  spec.mixture.grain = model::Grain::kSubstep;
  spec.mixture.stages.push_back({4, {1, 2, 3, 4, 5, 6, 7, 8}});
  EXPECT_EQ(at(spec, 3, 2), (std::vector<int64_t>{kWeightOne, 0}));
  EXPECT_EQ(at(spec, 4, 0), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(at(spec, 9, 3), (std::vector<int64_t>{7, 8}));
  spec.mixture.stages.push_back({10, {0, kWeightOne}, Ramp::kLinear, 2});
  EXPECT_LT(at(spec, 10, 1)[1], at(spec, 10, 2)[1]) << "a ramp moves at every substep";
}

TEST(MixSchedule, MayAskNeverMissesAStep) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    model::JobSpec spec = two_sources();
    StepIndex first = 0;
    for (uint64_t i = 0; i < 4; ++i) {
      first += 1 + uniform_below(seed, i, 0, 12);
      const bool ramp = uniform_below(seed, i, 1, 2) == 0;
      const bool on = uniform_below(seed, i, 2, 2) == 0;
      const uint64_t steps = 1 + uniform_below(seed, i, 3, 12);
      if (i > 0 &&
          first - spec.mixture.stages.back().first_step < spec.mixture.stages.back().ramp_steps) {
        continue;
      }
      spec.mixture.stages.push_back({first,
                                     {kWeightOne, on ? kWeightOne : 0},
                                     ramp ? Ramp::kCosine : Ramp::kNone,
                                     ramp ? steps : 0});
    }
    const StepIndex from = uniform_below(seed, 9, 0, 60);
    const StepIndex to = from + uniform_below(seed, 9, 1, 20);
    bool asked = false;
    for (StepIndex step = from; step <= to; ++step) asked = asked || at(spec, step)[1] > 0;
    if (asked) {
      EXPECT_TRUE(may_ask(spec.mixture, 1, from, to)) << seed;
    }
  }
}

TEST(MixSchedule, SaysWhatDoesNotFit) {
  const auto refused = [](auto change) {
    model::JobSpec spec = two_sources();
    change(&spec);
    return check_mixture(spec).message();
  };
  EXPECT_NE(refused([](auto* s) { s->mixture.stages[0].ramp = Ramp::kLinear; }).find("ramp"),
            std::string::npos);
  EXPECT_NE(refused([](auto* s) {
              s->mixture.stages.push_back({5, {1, 1}, Ramp::kLinear, 9});
              s->mixture.stages.push_back({9, {1, 1}});
            }).find("longer than the stage"),
            std::string::npos);
  EXPECT_NE(refused([](auto* s) {
              s->mixture.unit = model::MixUnit::kBytes;
              s->sources[0].tokenizer.kind = model::TokenizerKind::kHuggingface;
            }).find("unit bytes needs the bytes"),
            std::string::npos);
  EXPECT_NE(refused([](auto* s) { s->mixture.max_passes = {1}; }).find("max_passes"),
            std::string::npos);
  EXPECT_NE(refused([](auto* s) {
              s->mixture.stages[0].weights.push_back(1);
            }).find("one weight per source"),
            std::string::npos);
  EXPECT_NE(refused([](auto* s) {
              s->mixture.controller.kind = model::ControllerKind::kOdm;
              s->mixture.controller.delay = 0;
            }).find("delay"),
            std::string::npos);
}

TEST(Mixer, ASourceIsDryAfterItsPasses) {
  MadeUpJob job(64, 4);
  job.add(std::vector<uint32_t>(20, 16), model::EndPolicy::kRepeat);
  job.add(std::vector<uint32_t>(30, 16), model::EndPolicy::kRepeat);
  job.spec.mixture.max_passes = {2, 0};
  auto steps = run_steps(job, 20, 40);
  ASSERT_TRUE(steps.ok()) << steps.status().message();
  EXPECT_EQ(steps->back().after.cursors[0].samples, 40u);
  EXPECT_TRUE(steps->back().after.cursors[0].dry);
  EXPECT_FALSE(steps->back().content.last);
  job.spec.mixture.max_passes = {2, 3};
  steps = run_steps(job, 100, 40);
  ASSERT_TRUE(steps.ok());
  EXPECT_TRUE(steps->back().content.last) << "capped sources end the stream";
  EXPECT_EQ(steps->back().after.cursors[0].samples + steps->back().after.cursors[1].samples, 130u);
}

TEST(Mixer, SubstepWeightsDecideWhatASubstepHolds) {
  MadeUpJob job(64, 8);
  job.add(std::vector<uint32_t>(50, 64), model::EndPolicy::kRepeat);
  job.add(std::vector<uint32_t>(50, 64), model::EndPolicy::kRepeat);
  job.spec.substeps = 2;
  job.spec.packing.method = model::Packing::kConcat;
  job.spec.mixture.grain = model::Grain::kSubstep;
  job.spec.mixture.stages[0].weights = {kWeightOne, 0, 0, kWeightOne};
  const auto steps = run_steps(job, 5, 10);
  ASSERT_TRUE(steps.ok()) << steps.status().message();
  for (const MadeUpStep& step : *steps) {
    for (size_t i = 0; i < step.content.segments.size(); ++i) {
      EXPECT_EQ(step.content.segments[i].id.source, i < 4 ? 0u : 1u);
    }
  }
}

TEST(Mixer, BytesAreCharged) {
  MadeUpJob job(64, 8);
  for (int s = 0; s < 2; ++s) {
    model::Source& source =
        job.add(std::vector<uint32_t>(500, s == 0 ? 12 : 42), model::EndPolicy::kRepeat);
    source.tokenizer.kind = model::TokenizerKind::kBytes;
    source.eod = 1;
    source.bos = 2;
  }
  job.spec.mixture.unit = model::MixUnit::kBytes;
  const auto steps = run_steps(job, 40, 40);
  ASSERT_TRUE(steps.ok()) << steps.status().message();
  const auto& cursors = steps->back().after.cursors;
  EXPECT_NEAR(static_cast<double>(cursors[0].samples * 10),
              static_cast<double>(cursors[1].samples * 40), 42);
}

}  // namespace
}  // namespace overlord::plan
