#include "overlord/roles/planner/reports.h"

#include <algorithm>
#include <map>

namespace overlord::planner {
namespace {

using protocol::Verdict;

// Bounds of one part, so that the sum over all ranks fits 64 bits.
constexpr int64_t kMostLoss = int64_t{1} << 48;
constexpr uint64_t kMostTokens = uint64_t{1} << 46;

bool makes_sense(const PlannerJob& job, const model::StepFeedback& part) {
  const size_t sources = job.spec.sources.size();
  for (size_t i = 0; i < part.losses.size(); ++i) {
    const model::SourceLoss& loss = part.losses[i];
    if (loss.source >= sources || loss.tokens > kMostTokens) return false;
    if (loss.loss > kMostLoss || loss.loss < -kMostLoss) return false;
    if (i > 0 && part.losses[i - 1].source >= loss.source) return false;
  }
  if (part.weights.empty()) return true;
  const auto bad = [](int64_t weight) { return weight < 0 || weight > model::kWeightOne; };
  return part.weights.size() == sources &&
         job.spec.mixture.controller.kind == model::ControllerKind::kRule &&
         std::none_of(part.weights.begin(), part.weights.end(), bad);
}

}  // namespace

Verdict judge_report(const PlannerJob& job, const PlannerState& state, Rank rank,
                     const model::StepFeedback& part) {
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
    for (const model::SourceLoss& loss : part.losses) {
      model::SourceLoss& total = by_source[loss.source];
      total.source = loss.source;
      total.loss += loss.loss;
      total.tokens += loss.tokens;
    }
    if (!part.weights.empty()) sum.weights = part.weights;
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
    if (parts.size() == job.reporters.size()) {
      out->effects.push_back(JournalFeedback{sum_parts(part.step, parts), rank});
      return;
    }
  }
  out->effects.push_back(
      Send{protocol::client_address(rank), protocol::ReportAnswered{part.step, verdict}});
}

}  // namespace overlord::planner
