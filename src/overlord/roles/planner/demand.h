// What the mixture asks of the sources, now and soon, against what reading them has cost: who needs
// more slots before a turn comes, and who has too many. Its memory decides who reads, never what a
// step holds; what it decides is journalled with all it was decided from.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "overlord/plan/partition/scaler.h"
#include "overlord/roles/planner/logic.h"

namespace overlord::planner {

// How long a step takes those who consume it: a moving average. 0 until two were timed.
class StepPace {
 public:
  // So many steps of this run are consumed.
  void note(StepIndex acknowledged, int64_t now_ns);
  uint64_t step_ns() const { return step_ns_; }

 private:
  bool begun_ = false;
  StepIndex step_ = 0;
  int64_t since_ns_ = 0;
  uint64_t step_ns_ = 0;
};

class Demand {
 public:
  explicit Demand(const PlannerJob& job);

  // Something was heard; something always is while the stream runs. Every interval, the scaler
  // looks at how busy workers were.
  Reaction heard(const PlannerState& state, int64_t now_ns);
  // The next step is another one, or the stream begins: where the mixture turns to a source within
  // the steps that are foreseen, there is to be enough metadata and slots when it comes.
  Reaction foresee(const PlannerState& state);

 private:
  using Shares = std::vector<uint32_t>;  // by source, thousandths of the tokens of a step

  Shares shares_at(const PlannerState& state, StepIndex step) const;
  // Of the steps after the next one, as far as is foreseen.
  const std::deque<Shares>& coming(const PlannerState& state);
  model::SourceCost cost_of(const PlannerState& state, SourceIndex source) const;
  // Of a step's part of the source.
  uint64_t work_ns(const model::SourceCost& cost, uint32_t share) const;
  void look_ahead(const PlannerState& state, SourceIndex source, const Shares& now,
                  Reaction* out) const;

  const PlannerJob& job_;
  const bool scales_, turns_;
  plan::Scaler scaler_;
  StepPace pace_;
  int64_t looked_ns_ = 0;
  StepIndex coming_from_ = 0;
  std::deque<Shares> coming_;
};

}  // namespace overlord::planner
