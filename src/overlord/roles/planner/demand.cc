#include "overlord/roles/planner/demand.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/plan/mix/mix_schedule.h"
#include "overlord/roles/planner/owners.h"

namespace overlord::planner {
namespace {

constexpr uint64_t kNewestMilli = 300;  // weight of the newest step in the pace
// What this run has measured counts once it has planned so many steps; before, what another has.
constexpr StepIndex kStepsMeasured = 16;

uint64_t product_over(uint64_t a, uint64_t b, uint64_t over) {
  const auto wide = static_cast<unsigned __int128>(a) * b / std::max<uint64_t>(1, over);
  return static_cast<uint64_t>(std::min<unsigned __int128>(wide, UINT64_MAX / 4));
}

bool is_known(const model::SourceCost& cost) {
  return cost.busy_ns() > 0 && cost.tokens > 0 && cost.documents > 0;
}

// Weights that follow losses turn as well, and nobody knows when.
bool turns(const model::Mixture& mixture) {
  return !mixture.metric_driven() && mixture.stages.size() > 1;
}

}  // namespace

void StepPace::note(StepIndex acknowledged, int64_t now_ns) {
  if (begun_ && acknowledged <= step_) return;
  if (begun_ && now_ns > since_ns_) {  // clocks jump
    const uint64_t one_ns = static_cast<uint64_t>(now_ns - since_ns_) / (acknowledged - step_);
    step_ns_ =
        step_ns_ == 0 ? one_ns : (step_ns_ * (1000 - kNewestMilli) + one_ns * kNewestMilli) / 1000;
  }
  begun_ = acknowledged > 0;
  step_ = acknowledged;
  since_ns_ = now_ns;
}

Demand::Demand(const PlannerJob& job)
    : job_(job),
      scales_(job.scaling.policy != model::ScalingPolicy::kOff && job.slots != job.most_slots),
      turns_(turns(job.spec.mixture)),
      scaler_(job.scaling.policy) {}

Reaction Demand::heard(const PlannerState& state, int64_t now_ns) {
  Reaction out;
  if (!scales_) return out;
  pace_.note(state.acknowledged() - state.first_step(), now_ns);
  if (looked_ns_ == 0) looked_ns_ = now_ns;
  if (now_ns - looked_ns_ < job_.scaling.interval_ms * 1'000'000) return out;
  OVERLORD_CHECK(job_.slots.size() == job_.most_slots.size(), "sizes of the same sources");
  const auto interval_ns = static_cast<uint64_t>(now_ns - std::exchange(looked_ns_, now_ns));
  const Shares now = shares_at(state, state.next_step());
  Shares soon = now;
  for (const Shares& then : coming(state)) {
    for (size_t s = 0; s < soon.size(); ++s) soon[s] = std::max(soon[s], then[s]);
  }
  std::vector<plan::IntervalLoad> loads;
  for (SourceIndex s = 0; s < job_.slots.size(); ++s) {
    loads.push_back({newest_slots(job_, state, s), job_.most_slots[s], job_.spec.sources[s].workers,
                     state.busy_ns(s) * 1000 / interval_ns, now[s], soon[s],
                     job_.spec.mixture.metric_driven()});
  }
  out.events.emplace_back(LoadTaken{});
  for (plan::ScaleAdvice& advice : scaler_.next(loads)) {
    // Others are not declared to grow.
    if (job_.most_slots[advice.source] == job_.slots[advice.source]) continue;
    change_slots(job_, state, advice.source, std::move(advice.inputs),
                 std::move(advice.decision.reason), &out);
  }
  return out;
}

Reaction Demand::foresee(const PlannerState& state) {
  Reaction out;
  if (!turns_ || state.ended() || state.remaking()) return out;
  const Shares now = shares_at(state, state.next_step());
  coming(state);
  for (SourceIndex s = 0; s < job_.slots.size(); ++s) look_ahead(state, s, now, &out);
  return out;
}

void Demand::look_ahead(const PlannerState& state, SourceIndex source, const Shares& now,
                        Reaction* out) const {
  size_t at = coming_.size();
  for (size_t i = 0; i < coming_.size(); ++i) {
    if (coming_[i][source] > (at == coming_.size() ? now : coming_[at])[source]) at = i;
  }
  const model::SourceCost& seen = state.measured(source);
  if (at == coming_.size()) return;  // nothing turns to it
  OVERLORD_CHECK(coming_from_ == state.next_step() + 1, "what comes is behind the next step");
  const uint32_t share = coming_[at][source];
  if (seen.tokens > 0) {
    const uint64_t tokens = job_.spec.step_tokens(coming_from_ + at) * share / 1000;
    const uint64_t rows = product_over(tokens, seen.documents, seen.tokens) + 1;
    if (rows > state.step_rows(source)) out->events.emplace_back(TurnForeseen{source, rows});
  }
  const bool measured = job_.scaling.policy == model::ScalingPolicy::kMeasured;
  if (!scales_ || !measured || job_.most_slots[source] == job_.slots[source]) return;
  model::ScaleInputs inputs = scale_inputs(job_, state, source, model::ScaleRule::kForesight);
  inputs.share_now = now[source];
  inputs.share_soon = share;
  inputs.step = coming_from_ + at;
  inputs.step_ns = pace_.step_ns();
  inputs.work_ns = work_ns(cost_of(state, source), share);
  for (SourceIndex s = 0; s < job_.slots.size(); ++s) {
    inputs.all_work_ns += work_ns(cost_of(state, s), coming_[at][s]);
    const uint32_t most = std::max(job_.most_slots[s], job_.slots[s]);
    inputs.room = std::max(inputs.room, most * job_.spec.sources[s].workers);
  }
  plan::ScaleDecision decision = plan::decide(inputs);
  OVERLORD_CHECK(decision.slots >= inputs.slots, "a turn takes nobody away");
  if (decision.slots == inputs.slots) return;
  change_slots(job_, state, source, std::move(inputs), std::move(decision.reason), out);
}

// By the tokens it is to give: that is what its cost is known for.
Demand::Shares Demand::shares_at(const PlannerState& state, StepIndex step) const {
  const model::StreamState& stream = state.stream();
  const uint64_t epoch = plan::epoch_at(job_.spec.mixture, job_.source_rows, stream.cursors, step);
  std::vector<int64_t> weights;
  plan::weights_at(job_.spec, {step, 0, epoch, &stream.controller}, &weights);
  OVERLORD_CHECK(weights.size() == job_.spec.sources.size(), "a weight for every source");
  const auto sum = std::accumulate(weights.begin(), weights.end(), __int128{0});
  Shares shares;
  for (const int64_t weight : weights) {
    shares.push_back(sum == 0 ? 0 : static_cast<uint32_t>(__int128{weight} * 1000 / sum));
  }
  if (job_.spec.mixture.unit != model::MixUnit::kSamples) return shares;
  std::vector<unsigned __int128> tokens;
  for (SourceIndex s = 0; s < shares.size(); ++s) {
    const model::SourceCost cost = cost_of(state, s);
    if (cost.documents == 0) return shares;  // of documents that nobody has seen
    tokens.push_back(static_cast<unsigned __int128>(shares[s]) * cost.tokens * 1000 /
                     cost.documents);
  }
  const auto all = std::accumulate(tokens.begin(), tokens.end(), static_cast<unsigned __int128>(0));
  for (SourceIndex s = 0; s < shares.size() && all > 0; ++s) {
    shares[s] = static_cast<uint32_t>(tokens[s] * 1000 / all);
  }
  return shares;
}

const std::deque<Demand::Shares>& Demand::coming(const PlannerState& state) {
  const StepIndex first = state.next_step() + 1;
  const bool moves = job_.spec.mixture.grain == model::Grain::kEpoch ||
                     job_.spec.mixture.unit == model::MixUnit::kSamples;
  const bool apart = first < coming_from_ || first > coming_from_ + coming_.size();
  if (moves || apart) coming_.clear();
  if (coming_.empty()) coming_from_ = first;
  for (; coming_from_ < first; ++coming_from_) coming_.pop_front();
  while (coming_.size() < steps_foreseen(job_)) {
    coming_.push_back(shares_at(state, coming_from_ + coming_.size()));
  }
  return coming_;
}

model::SourceCost Demand::cost_of(const PlannerState& state, SourceIndex source) const {
  const model::SourceCost& before = job_.spec.sources[source].measured;
  const model::SourceCost& here = state.measured(source);
  const bool enough = state.next_step() >= state.first_step() + kStepsMeasured;
  if (is_known(here) && (enough || !is_known(before))) return here;
  return is_known(before) ? before : here;
}

uint64_t Demand::work_ns(const model::SourceCost& cost, uint32_t share) const {
  if (!is_known(cost)) return 0;
  const uint64_t tokens = job_.spec.step_tokens(coming_from_) * share / 1000;
  return product_over(cost.busy_ns(), tokens, cost.tokens);
}

}  // namespace overlord::planner
