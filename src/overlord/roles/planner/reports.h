// Reports of ranks: judged, gathered, and summed in rank order once all reporters are in (law 9).
// Where a user's rule decides, it is asked then, in the process of the first reporter.
#pragma once

#include "overlord/roles/planner/logic.h"

namespace overlord::planner {

protocol::Verdict judge_report(const PlannerJob& job, const PlannerState& state, Rank rank,
                               const model::StepFeedback& part);
// Sums the parts in rank order.
model::StepFeedback sum_parts(StepIndex step, const PlannerState::Parts& parts);
// Takes or refuses one part; the answer goes to the rank, the last part to the journal.
void take_report(const PlannerJob& job, const PlannerState& state, Rank rank,
                 const model::StepFeedback& part, Reaction* out);
// The rule's question, once every reporter is in and the steps before it are decided.
Reaction ask_rule(const PlannerJob& job, const PlannerState& state);
// What the rule said of the step that it was asked about, or why it says nothing. The stream ends
// before the first step that needs it.
void take_rule_answer(const PlannerJob& job, const PlannerState& state, Rank rank,
                      const model::StepFeedback& answer, Reaction* out);
void take_rule_failure(const PlannerJob& job, const PlannerState& state, Rank rank,
                       const protocol::StreamFailed& failure, Reaction* out);

}  // namespace overlord::planner
