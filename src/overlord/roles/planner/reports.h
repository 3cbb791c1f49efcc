// Reports of ranks: judged, gathered, and summed in rank order once all reporters are in (law 9).
#pragma once

#include "overlord/roles/planner/logic.h"

namespace overlord::planner {

protocol::Verdict judge_report(const PlannerJob& job, const PlannerState& state, Rank rank,
                               const model::StepFeedback& part);
// Sums the parts in rank order; the weights of a rule come from the last rank that has some.
model::StepFeedback sum_parts(StepIndex step, const PlannerState::Parts& parts);
// Takes or refuses one part; the answer goes to the rank, the last part to the journal.
void take_report(const PlannerJob& job, const PlannerState& state, Rank rank,
                 const model::StepFeedback& part, Reaction* out);

}  // namespace overlord::planner
