#include "overlord/plan/mix/mix_controller.h"

#include <gtest/gtest.h>

#include <cmath>

#include "overlord/base/fixed_functions.h"
#include "overlord/base/hash.h"
#include "overlord/base/rng.h"
#include "overlord/plan/mix/mix_schedule.h"
#include "overlord/plan/mix/power_law.h"

namespace overlord::plan {
namespace {

using model::ControllerKind;

model::JobSpec job_of(ControllerKind kind, size_t sources) {
  model::JobSpec spec;
  spec.context = 64;
  spec.bins = 8;
  spec.sources.resize(sources);
  spec.mixture.stages = {{0, std::vector<int64_t>(sources, kFixedOne)}};
  spec.mixture.controller.kind = kind;
  return spec;
}

model::SourceLoss loss_of(SourceIndex source, double mean, uint64_t tokens) {
  return {source, static_cast<int64_t>(mean * static_cast<double>(tokens) * 4096), tokens};
}

double share(const model::ControllerState& controller, size_t source) {
  double total = 0;
  for (const auto& memory : controller.sources) total += static_cast<double>(memory.weight);
  return static_cast<double>(controller.sources[source].weight) / total;
}

// The rule as written, in floating point: the oracle.
struct Odm {
  size_t sources;
  double smoothing = 0.9;
  std::vector<double> reward = std::vector<double>(sources, 0);
  uint64_t t = 0;

  double rate(uint64_t at) const {
    const auto k = static_cast<double>(sources);
    return at == 0 ? 1 / k
                   : std::min(1 / k, std::sqrt(std::log(k) / (k * static_cast<double>(at))));
  }
  std::vector<double> update(const std::vector<double>& losses, const std::vector<double>& had) {
    const auto k = static_cast<double>(sources);
    ++t;
    for (size_t s = 0; s < sources; ++s) {
      const double real = std::max(had[s], rate(t - 1));
      reward[s] = smoothing * reward[s] + (1 - smoothing) * losses[s] / real;
    }
    double total = 0;
    std::vector<double> out(sources);
    for (size_t s = 0; s < sources; ++s) total += out[s] = std::exp(rate(t - 1) * reward[s]);
    for (double& item : out) item = (1 - k * rate(t)) * item / total + rate(t);
    return out;
  }
};

TEST(Odm, FollowsTheRuleAsWritten) {
  constexpr size_t kSources = 5;
  const model::JobSpec spec = job_of(ControllerKind::kOdm, kSources);
  model::ControllerState controller = initial_controller(spec, 0);
  Odm oracle{kSources};
  for (uint64_t step = 0; step < 400; ++step) {
    model::StepFeedback feedback{step, {}, {}};
    std::vector<double> losses(kSources), had(kSources);
    double all = 0;
    for (size_t s = 0; s < kSources; ++s) {
      const uint64_t tokens = 1000 + uniform_below(1, step, s, 100'000);
      losses[s] = 1 + static_cast<double>(s) + 0.001 * static_cast<double>(step % 7);
      feedback.losses.push_back(loss_of(static_cast<SourceIndex>(s), losses[s], tokens));
      all += had[s] = static_cast<double>(tokens);
    }
    for (double& item : had) item /= all;
    take_feedback(spec, feedback, &controller);
    const std::vector<double> expected = oracle.update(losses, had);
    for (size_t s = 0; s < kSources; ++s) {
      EXPECT_NEAR(share(controller, s), expected[s], 1e-4) << step << " " << s;
    }
  }
  EXPECT_GT(share(controller, 4), share(controller, 0)) << "a higher loss earns a larger share";
}

TEST(Odm, EverySourceKeepsAShareAndOnlyThoseOfThePrior) {
  model::JobSpec spec = job_of(ControllerKind::kOdm, 4);
  spec.mixture.stages[0].weights = {kFixedOne, 0, 1, kFixedOne};
  model::ControllerState controller = initial_controller(spec, 0);
  for (uint64_t step = 0; step < 500; ++step) {
    take_feedback(spec, {step, {loss_of(0, 1e6, 100), loss_of(1, 9, 5), loss_of(3, -5, 7)}, {}},
                  &controller);
    EXPECT_EQ(controller.sources[1].weight, 0);
    for (const size_t s : {0, 2, 3}) EXPECT_GT(controller.sources[s].weight, 0) << step;
  }
}

TEST(PowerLaw, FindsTheCurveItWasMadeFrom) {
  for (const double alpha : {0.1, 0.3, 0.5}) {
    for (const double eps : {0.0, 1.5}) {
      std::vector<model::LossPoint> points;
      for (double n = 1e6; n < 1e9; n *= 3) {
        const double loss = eps + 40 * std::pow(n, -alpha);
        points.push_back({std::llround(std::log(n) * 1024), std::llround(loss * 16384)});
      }
      const auto law = fit_power_law(points);
      ASSERT_TRUE(law.has_value());
      // What is used of a fit is how fast the loss falls: alpha * beta * n^-alpha.
      const double n = 1e8;
      const double found = static_cast<double>(law->alpha) / kFixedOne;
      const double beta = std::exp(static_cast<double>(law->log_beta) / kFixedOne);
      const double truth = alpha * 40 * std::pow(n, -alpha);
      EXPECT_NEAR(found * beta * std::pow(n, -found), truth, 0.1 * truth) << alpha << " " << eps;
    }
  }
  EXPECT_FALSE(fit_power_law({}).has_value());
}

TEST(Ado, SourcesThatStillLearnGetMore) {
  model::JobSpec spec = job_of(ControllerKind::kAdo, 3);
  spec.mixture.controller.fit_every = 50;
  spec.mixture.controller.fit_after = 20;
  model::ControllerState controller = initial_controller(spec, 0);
  double tokens[3] = {1, 1, 1};
  for (uint64_t step = 0; step < 2000; ++step) {
    model::StepFeedback feedback{step, {}, {}};
    const double betas[3] = {0, 20, 5};  // the first has nothing more to learn
    for (SourceIndex s = 0; s < 3; ++s) {
      const auto drawn = static_cast<uint64_t>(100'000 * share(controller, s)) + 1;
      tokens[s] += static_cast<double>(drawn);
      feedback.losses.push_back(loss_of(s, 2 + betas[s] * std::pow(tokens[s], -0.2), drawn));
    }
    take_feedback(spec, feedback, &controller);
    if (step < 20) {
      EXPECT_NEAR(share(controller, 2), 1.0 / 3, 1e-6) << "the prior holds until a curve is known";
    }
  }
  EXPECT_GT(share(controller, 1), share(controller, 2));
  EXPECT_GT(share(controller, 2), share(controller, 0));
  for (size_t s = 0; s < 3; ++s) {
    EXPECT_GE(share(controller, s), 0.0099);
    EXPECT_LE(controller.sources[s].points.size(), 8u);
  }
}

TEST(Rule, ItsWeightsCome) {
  model::JobSpec spec = job_of(ControllerKind::kRule, 2);
  model::ControllerState controller = initial_controller(spec, 0);
  take_feedback(spec, {0, {}, {5, 7}}, &controller);
  EXPECT_EQ(controller.sources[1].weight, 7);
  take_feedback(spec, {1, {}, {}}, &controller);
  EXPECT_EQ(controller.sources[1].weight, 7);
}

TEST(Controller, NeedsFeedbackAfterItsDelayAndNotBefore) {
  model::JobSpec spec = job_of(ControllerKind::kOdm, 2);
  spec.mixture.controller.delay = 3;
  const model::ControllerState controller = initial_controller(spec, 10);
  EXPECT_FALSE(feedback_needed(controller, 12).has_value());
  EXPECT_EQ(feedback_needed(controller, 13), StepIndex{10});
  EXPECT_FALSE(feedback_needed(model::ControllerState(), 99).has_value());
}

// The same on every CPU: these were computed once.
TEST(Controller, GoldenWeights) {
  for (const auto& [kind, golden] :
       {std::pair{ControllerKind::kOdm, "9c4c9286864c0ab93227bb10508d0040"},
        std::pair{ControllerKind::kAdo, "12995b635c84c79b38f7be4b61189f43"}}) {
    model::JobSpec spec = job_of(kind, 7);
    spec.mixture.controller.fit_every = 9;
    spec.mixture.controller.fit_after = 2;
    model::ControllerState controller = initial_controller(spec, 0);
    Digest digest;
    for (uint64_t step = 0; step < 300; ++step) {
      model::StepFeedback feedback{step, {}, {}};
      for (SourceIndex s = 0; s < 7; ++s) {
        const uint64_t tokens = uniform_below(3, step, s, 5000);
        const auto mean = static_cast<int64_t>(6'250 + 25'000 / (step / 10 + s + 1));
        feedback.losses.push_back({s, static_cast<int64_t>(tokens) * mean, tokens});
      }
      take_feedback(spec, feedback, &controller);
      for (const auto& memory : controller.sources) {
        digest = chain(digest, {0, static_cast<uint64_t>(memory.weight)});
      }
    }
    EXPECT_EQ(digest.hex(), golden);
    if (kind == ControllerKind::kAdo) {
      EXPECT_GT(controller.averaged, 0u);
    }
  }
}

}  // namespace
}  // namespace overlord::plan
