#include "overlord/plan/mix/mix_controller.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "overlord/base/check.h"
#include "overlord/base/fixed_functions.h"
#include "overlord/plan/mix/power_law.h"

namespace overlord::plan {
namespace {

using model::ControllerKind;
using model::ControllerState;
using model::SourceLoss;
using model::SourceMemory;

constexpr int64_t kMostReward = int64_t{1} << 60;
constexpr size_t kMostPoints = 8;  // of a loss curve
// ln(5/4): points of a loss curve lie at least so far apart.
constexpr int64_t kLeastSpacing = 228;  // 2^-kPointLogBits

// Shares of the prior, kFixedOne in all; a source without a weight has none.
std::vector<int64_t> prior_of(const model::JobSpec& spec) {
  const std::vector<int64_t>& weights = spec.mixture.stages.front().weights;
  Int128 total = 0;
  for (const int64_t weight : weights) total += weight;
  OVERLORD_CHECK(total > 0, "some source has a weight");
  std::vector<int64_t> prior(weights.size(), 0);
  for (size_t s = 0; s < weights.size(); ++s) {
    if (weights[s] == 0) continue;
    const Int128 share = (Int128{weights[s]} << kFixedBits) / total;
    prior[s] = std::max<int64_t>(static_cast<int64_t>(share), 1);
  }
  return prior;
}

// Shares in proportion to e^score over the sources marked by `in`, `whole` in all.
void softmax(const std::vector<int64_t>& scores, const std::vector<bool>& in, int64_t whole,
             std::vector<int64_t>* shares) {
  int64_t most = std::numeric_limits<int64_t>::min();
  for (size_t s = 0; s < scores.size(); ++s) {
    if (in[s]) most = std::max(most, scores[s]);
  }
  Int128 total = 0;
  for (size_t s = 0; s < scores.size(); ++s) {
    if (!in[s]) continue;
    const Int128 below = Int128{scores[s]} - most;
    (*shares)[s] = below < -64 * Int128{kFixedOne} ? 0 : fixed_exp(static_cast<int64_t>(below));
    total += (*shares)[s];
  }
  OVERLORD_CHECK(total > 0, "the largest of the shares is not 0");
  for (size_t s = 0; s < scores.size(); ++s) {
    if (in[s]) (*shares)[s] = static_cast<int64_t>(Int128{whole} * (*shares)[s] / total);
  }
}

// The exploration floor of odm at update t, as the share of all that is spread by the prior: K
// times min(1/K, sqrt(ln K / (K t))).
int64_t explored(uint64_t sources, uint64_t t) {
  if (t == 0 || sources < 2) return kFixedOne;
  const Int128 under_root = Int128{fixed_log_of(sources)} * sources / t;  // K^2 ln K / (K t)
  if (under_root >= kFixedOne) return kFixedOne;
  return fixed_sqrt(static_cast<int64_t>(under_root));
}

int64_t mean_loss(const SourceLoss& loss) {
  OVERLORD_CHECK(loss.tokens > 0, "a mean over some tokens");
  const Int128 mean = floor_div(Int128{loss.loss} << (kFixedBits - model::kLossBits),
                                static_cast<Int128>(loss.tokens));
  return static_cast<int64_t>(std::clamp<Int128>(mean, -kMostReward, kMostReward));
}

void reward_sources(const model::StepFeedback& feedback, int64_t smoothing, int64_t spread,
                    const std::vector<int64_t>& prior, ControllerState* controller) {
  Int128 all_tokens = 0;
  for (const SourceLoss& loss : feedback.losses) all_tokens += loss.tokens;
  for (const SourceLoss& loss : feedback.losses) {
    OVERLORD_CHECK(loss.source < prior.size(), "a report was judged before it counts");
    if (loss.tokens == 0 || prior[loss.source] == 0) continue;
    SourceMemory& memory = controller->sources[loss.source];
    const Int128 had = (Int128{loss.tokens} << kFixedBits) / all_tokens;
    // One document in a step that was asked for none would weigh without bound.
    const int64_t least = std::max<int64_t>(fixed_mul(spread, prior[loss.source]), 1);
    const Int128 share = std::max<Int128>(had, least);
    const Int128 reward = std::clamp<Int128>((Int128{mean_loss(loss)} << kFixedBits) / share,
                                             -kMostReward, kMostReward);
    const Int128 kept = Int128{memory.reward} * smoothing + reward * (kFixedOne - smoothing);
    memory.reward = static_cast<int64_t>(kept >> kFixedBits);
  }
}

void update_odm(const model::JobSpec& spec, const model::StepFeedback& feedback,
                ControllerState* controller) {
  const std::vector<int64_t> prior = prior_of(spec);
  const size_t sources = prior.size();
  std::vector<bool> in(sources);
  uint64_t count = 0;
  for (size_t s = 0; s < sources; ++s) count += in[s] = prior[s] > 0;
  const uint64_t t = controller->updates + 1;
  const int64_t before = explored(count, t - 1);  // K E of the update before: its learning rate
  reward_sources(feedback, spec.mixture.controller.smoothing, before, prior, controller);
  std::vector<int64_t> scores(sources, 0), shares(sources, 0);
  for (size_t s = 0; s < sources; ++s) {
    const Int128 score =
        (Int128{controller->sources[s].reward} * before >> kFixedBits) / static_cast<Int128>(count);
    scores[s] = static_cast<int64_t>(score);
  }
  const int64_t spread = explored(count, t);
  softmax(scores, in, kFixedOne - spread, &shares);
  for (size_t s = 0; s < sources; ++s) {
    if (!in[s]) continue;
    controller->sources[s].weight = std::max<int64_t>(fixed_mul(spread, prior[s]) + shares[s], 1);
  }
}

// Keeps half of the points, each the mean of two, so that a curve of any length fits.
void thin(std::vector<model::LossPoint>* points) {
  const size_t half = points->size() / 2;
  for (size_t i = 0; i < half; ++i) {
    const model::LossPoint &a = (*points)[2 * i], &b = (*points)[2 * i + 1];
    (*points)[i] = {(a.log_tokens + b.log_tokens) / 2, (a.loss + b.loss) / 2};
  }
  points->resize(half);
}

void note_loss(const SourceLoss& loss, bool counts, SourceMemory* memory) {
  memory->tokens += loss.tokens;
  if (!counts || loss.tokens == 0) return;
  memory->since_loss += loss.loss;
  memory->since_tokens += loss.tokens;
  std::vector<model::LossPoint>& points = memory->points;
  const int64_t place = fixed_log_of(memory->tokens) >> (kFixedBits - model::kPointLogBits);
  if (!points.empty()) {
    const int64_t span = points.back().log_tokens - points.front().log_tokens;
    const int64_t spacing = std::max(kLeastSpacing, span / static_cast<int64_t>(kMostPoints));
    if (place - points.back().log_tokens < spacing) return;
  }
  const int64_t mean = mean_loss({loss.source, memory->since_loss, memory->since_tokens});
  const int64_t most = int64_t{1} << (model::kPointLossBits + 16);
  if (points.size() >= kMostPoints) thin(&points);
  OVERLORD_CHECK(
      points.size() < kMostPoints && (points.empty() || points.back().log_tokens <= place),
      "a loss curve is short and goes on");
  points.push_back(
      {place, std::clamp<int64_t>(mean >> (kFixedBits - model::kPointLossBits), 1, most)});
  memory->since_loss = 0;
  memory->since_tokens = 0;
}

// Sources are fitted in turn, so that no step has to fit them all.
void fit_in_turn(const model::JobSpec& spec, ControllerState* controller) {
  const model::ControllerSpec& rules = spec.mixture.controller;
  const uint64_t count = controller->sources.size();
  const uint64_t turn = controller->updates % rules.fit_every;
  for (uint64_t s = 0; s < count; ++s) {
    SourceMemory& memory = controller->sources[s];
    if (s * rules.fit_every / count != turn) continue;
    const std::optional<PowerLaw> law = fit_power_law(memory.points);
    if (!law) continue;
    constexpr int64_t kCoarse = int64_t{1} << model::kFitCoarseBits;
    memory.alpha = std::max(law->alpha / kCoarse, int64_t{1}) * kCoarse;
    OVERLORD_CHECK(memory.alpha > 0, "a fitted loss falls");
    memory.log_beta = floor_div(law->log_beta, kCoarse) * kCoarse;
  }
}

// ln of prior * history^s * alpha * beta * n^-(alpha + 1): how fast the loss falls with a token
// more.
int64_t preference(const SourceMemory& memory, int64_t prior, int64_t exponent) {
  const Int128 log_n = fixed_log_of(std::max<uint64_t>(memory.tokens, 1));
  const Int128 fall = ((Int128{memory.alpha} + kFixedOne) * log_n) >> kFixedBits;
  const Int128 score = Int128{fixed_log(prior)} +
                       fixed_mul(exponent, fixed_log(std::max<int64_t>(memory.history, 1))) +
                       fixed_log(memory.alpha) + memory.log_beta - fall;
  return static_cast<int64_t>(score);
}

// Mixes preference into the mean share, remembers, and lifts everything above the floor.
void move_shares(const model::ControllerSpec& rules, const std::vector<int64_t>& prior,
                 uint64_t count, const std::vector<int64_t>& wanted, ControllerState* controller) {
  const auto mix = [](int64_t rate, int64_t to, int64_t from) {
    return static_cast<int64_t>((Int128{to} * rate + Int128{from} * (kFixedOne - rate)) >>
                                kFixedBits);
  };
  OVERLORD_CHECK(count > 0 && wanted.size() == prior.size(), "a share is wanted of every source");
  const auto n = static_cast<int64_t>(++controller->averaged);
  const auto half_share = static_cast<int64_t>(kFixedOne / (2 * count));
  const int64_t floor = std::min(rules.floor, half_share);
  const auto free = static_cast<int64_t>(kFixedOne - static_cast<int64_t>(count) * floor);
  for (size_t s = 0; s < prior.size(); ++s) {
    if (prior[s] == 0) continue;
    SourceMemory& memory = controller->sources[s];
    const int64_t share = mix(rules.follow_rate, wanted[s], memory.average);
    memory.average += (share - memory.average) / (n + 1);
    memory.history = mix(rules.history_rate, share, memory.history);
    memory.weight = std::max<int64_t>(floor + fixed_mul(free, share), 1);
  }
}

void update_ado(const model::JobSpec& spec, const model::StepFeedback& feedback,
                ControllerState* controller) {
  const model::ControllerSpec& rules = spec.mixture.controller;
  const std::vector<int64_t> prior = prior_of(spec);
  const bool counts = controller->updates >= rules.fit_after;
  for (const SourceLoss& loss : feedback.losses) {
    note_loss(loss, counts, &controller->sources[loss.source]);
  }
  fit_in_turn(spec, controller);
  const size_t sources = prior.size();
  std::vector<bool> fitted(sources);
  std::vector<int64_t> scores(sources, 0), wanted(sources, 0);
  uint64_t count = 0;
  int64_t known = 0;  // prior share of the sources with a fitted curve
  for (size_t s = 0; s < sources; ++s) {
    const SourceMemory& memory = controller->sources[s];
    count += prior[s] > 0;
    wanted[s] = prior[s];
    fitted[s] = prior[s] > 0 && memory.alpha > 0;
    if (!fitted[s]) continue;
    known += prior[s];
    scores[s] = preference(memory, prior[s], rules.history_exponent);
  }
  if (known == 0) return;  // nothing is known yet: the prior holds
  softmax(scores, fitted, known, &wanted);
  move_shares(rules, prior, count, wanted, controller);
}

void update_rule(const model::JobSpec& spec, const model::StepFeedback& feedback,
                 ControllerState* controller) {
  if (feedback.weights.empty()) return;  // the rule keeps what it had
  const std::vector<int64_t> prior = prior_of(spec);
  for (size_t s = 0; s < prior.size(); ++s) {
    if (prior[s] == 0) continue;
    OVERLORD_CHECK(feedback.weights.size() == prior.size(), "a rule decides for every source");
    controller->sources[s].weight = std::max<int64_t>(feedback.weights[s], 1);
  }
}

}  // namespace

ControllerState initial_controller(const model::JobSpec& spec, StepIndex since) {
  ControllerState controller;
  if (!spec.mixture.metric_driven()) return controller;
  controller.kind = spec.mixture.controller.kind;
  controller.delay = spec.mixture.controller.delay;
  controller.since = since;
  const std::vector<int64_t> prior = prior_of(spec);
  controller.sources.resize(prior.size());
  for (size_t s = 0; s < prior.size(); ++s) {
    OVERLORD_CHECK(prior[s] >= 0 && prior[s] <= kFixedOne, "a share of the prior");
    SourceMemory& memory = controller.sources[s];
    memory.weight = prior[s];
    if (controller.kind == ControllerKind::kAdo) memory.history = memory.average = prior[s];
  }
  return controller;
}

std::optional<StepIndex> feedback_needed(const ControllerState& controller, StepIndex step) {
  if (controller.kind == ControllerKind::kNone) return std::nullopt;
  if (step < controller.since + controller.delay) return std::nullopt;
  return step - controller.delay;
}

void take_feedback(const model::JobSpec& spec, const model::StepFeedback& feedback,
                   ControllerState* controller) {
  OVERLORD_CHECK(controller->sources.size() == spec.sources.size(), "one memory per source");
  switch (controller->kind) {
    case ControllerKind::kNone:
      return;
    case ControllerKind::kOdm:
      update_odm(spec, feedback, controller);
      break;
    case ControllerKind::kAdo:
      update_ado(spec, feedback, controller);
      break;
    case ControllerKind::kRule:
      update_rule(spec, feedback, controller);
      break;
  }
  ++controller->updates;
}

}  // namespace overlord::plan
