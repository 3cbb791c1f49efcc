#include "overlord/roles/planner/reports.h"

#include <algorithm>
#include <map>

#include "overlord/base/check.h"

namespace overlord::planner {
namespace {

using protocol::Verdict;

// Bounds of one part, so that the sum over all ranks fits 64 bits.
constexpr int64_t kMostLoss = int64_t{1} << 48;
constexpr uint64_t kMostTokens = uint64_t{1} << 46;

bool has_rule(const PlannerJob& job) {
  return job.spec.mixture.controller.kind == model::ControllerKind::kRule;
}

bool makes_sense(const PlannerJob& job, const model::StepFeedback& part) {
  const size_t sources = job.spec.sources.size();
  for (size_t i = 0; i < part.losses.size(); ++i) {
    const model::SourceLoss& loss = part.losses[i];
    if (loss.source >= sources || loss.tokens > kMostTokens) return false;
    if (loss.loss > kMostLoss || loss.loss < -kMostLoss) return false;
    if (i > 0 && part.losses[i - 1].source >= loss.source) return false;
  }
  return part.weights.empty();
}

bool are_weights(const PlannerJob& job, const std::vector<int64_t>& weights) {
  const auto bad = [](int64_t weight) { return weight < 0 || weight > model::kWeightOne; };
  return weights.size() == job.spec.sources.size() &&
         std::none_of(weights.begin(), weights.end(), bad);
}

// It was asked about this step, there, and has not answered.
bool rule_is_asked(const PlannerJob& job, const PlannerState& state, Rank rank, StepIndex step) {
  OVERLORD_CHECK(!has_rule(job) || !job.reporters.empty(), "somebody reports to a rule");
  return has_rule(job) && rank == job.reporters.front() && step == state.rule().step &&
         state.rule().stage == PlannerState::Rule::Stage::kAsked && !state.rule().failure;
}

Send accepted(Rank rank, StepIndex step) {
  return {protocol::client_address(rank), protocol::ReportAnswered{step, Verdict::kAccepted}};
}

}  // namespace

Verdict judge_report(const PlannerJob& job, const PlannerState& state, Rank rank,
                     const model::StepFeedback& part) {
  OVERLORD_CHECK(std::is_sorted(job.reporters.begin(), job.reporters.end()),
                 "reporters are searched by halves");
  const bool wanted = std::binary_search(job.reporters.begin(), job.reporters.end(), rank);
  if (!job.spec.mixture.metric_driven() || !wanted || !makes_sense(job, part)) {
    return Verdict::kUnwanted;
  }
  if (part.step < state.first_step()) return Verdict::kLate;
  if (part.step >= state.next_step()) return Verdict::kEarly;
  const PlannerState::Parts* parts = state.parts(part.step);
  if (parts != nullptr && parts->contains(rank)) return Verdict::kDuplicate;
  // Complete, or complete and used up: every reporter was in.
  const StepIndex delay = state.stream().controller.delay;
  if (state.feedback(part.step) != nullptr || part.step + delay < state.next_step()) {
    return Verdict::kDuplicate;
  }
  return Verdict::kAccepted;
}

model::StepFeedback sum_parts(StepIndex step, const PlannerState::Parts& parts) {
  model::StepFeedback sum;
  sum.step = step;
  std::map<SourceIndex, model::SourceLoss> by_source;
  for (const auto& [rank, part] : parts) {
    OVERLORD_CHECK(part.step == step, "parts of one step are summed");
    for (const model::SourceLoss& loss : part.losses) {
      model::SourceLoss& total = by_source[loss.source];
      total.source = loss.source;
      total.loss += loss.loss;
      total.tokens += loss.tokens;
    }
  }
  for (const auto& [source, total] : by_source) {
    if (total.tokens > 0) sum.losses.push_back(total);
  }
  return sum;
}

void take_report(const PlannerJob& job, const PlannerState& state, Rank rank,
                 const model::StepFeedback& part, Reaction* out) {
  const Verdict verdict = judge_report(job, state, rank, part);
  if (verdict == Verdict::kAccepted) {
    out->events.push_back(ReportArrived{rank, part});
    const PlannerState::Parts* before = state.parts(part.step);
    PlannerState::Parts parts = before == nullptr ? PlannerState::Parts() : *before;
    parts.emplace(rank, part);
    OVERLORD_CHECK(parts.size() <= job.reporters.size(), "a part of every reporter at most");
    if (parts.size() == job.reporters.size()) {
      if (state.rule().failure) out->effects.push_back(accepted(rank, part.step));
      if (has_rule(job)) return;  // the last one is answered when the rule has decided
      out->effects.push_back(JournalFeedback{sum_parts(part.step, parts), rank});
      return;
    }
  }
  out->effects.push_back(
      Send{protocol::client_address(rank), protocol::ReportAnswered{part.step, verdict}});
}

Reaction ask_rule(const PlannerJob& job, const PlannerState& state) {
  Reaction out;
  const PlannerState::Rule& rule = state.rule();
  if (!has_rule(job) || rule.stage != PlannerState::Rule::Stage::kIdle || rule.failure) return out;
  const PlannerState::Parts* parts = state.parts(rule.step);
  if (parts == nullptr || parts->size() != job.reporters.size()) return out;
  model::StepFeedback question = sum_parts(rule.step, *parts);
  question.weights = rule.weights;
  out.events.push_back(RuleAsked{});
  out.effects.push_back(
      Send{protocol::client_address(job.reporters.front()), protocol::Report{std::move(question)}});
  return out;
}

void take_rule_answer(const PlannerJob& job, const PlannerState& state, Rank rank,
                      const model::StepFeedback& answer, Reaction* out) {
  if (!rule_is_asked(job, state, rank, answer.step)) return;
  if (!are_weights(job, answer.weights)) {
    const Status status(Code::kUserFunction, "the mixing rule, asked after step " +
                                                 std::to_string(answer.step) +
                                                 ", gave what are no weights of the sources");
    return take_rule_failure(job, state, rank, {answer.step, status}, out);
  }
  OVERLORD_CHECK(state.parts(answer.step) != nullptr, "a rule is asked when every reporter is in");
  model::StepFeedback decided = sum_parts(answer.step, *state.parts(answer.step));
  decided.weights = answer.weights;
  out->events.push_back(RuleAnswered{});
  out->effects.push_back(JournalFeedback{std::move(decided), state.last_reporter(answer.step)});
}

void take_rule_failure(const PlannerJob& job, const PlannerState& state, Rank rank,
                       const protocol::StreamFailed& failure, Reaction* out) {
  if (!rule_is_asked(job, state, rank, failure.step)) return;
  out->events.push_back(RuleFailed{failure.status});
  // Those that wait for a verdict: of this step, and of later ones that are complete.
  for (StepIndex step = failure.step; state.parts(step) != nullptr; ++step) {
    if (state.parts(step)->size() != job.reporters.size()) continue;
    out->effects.push_back(accepted(state.last_reporter(step), step));
  }
}

}  // namespace overlord::planner
