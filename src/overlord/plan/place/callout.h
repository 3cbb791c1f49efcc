// Call-outs of a step: what a user's own function must be asked before the step can be placed, and
// whether an answer can be used. Pure: who asks, and how long that takes, is the planner's matter.
#pragma once

#include <optional>
#include <span>

#include "overlord/base/status.h"
#include "overlord/model/callout.h"
#include "overlord/model/job_spec.h"
#include "overlord/plan/place/place_tree.h"
#include "overlord/plan/select/selection.h"

namespace overlord::plan {

// Most that the samples of a step may cost together, in nanoseconds (more than two years): no sum
// over them overflows.
inline constexpr int64_t kMostStepCost = int64_t{1} << 56;

// Can the functions that a strategy names stand together with the rest of it?
Status check_callouts(const model::Strategy& strategy);

// What has to be asked next, after `answers`; nothing: the step can be placed.
Result<std::optional<model::CalloutRequest>> next_callout(const PlanInputs& inputs, StepIndex step,
                                                          const StepContent& content,
                                                          const model::CalloutAnswers& answers);

// The function, its version and the step, as messages name them.
std::string callout_text(const model::CalloutRequest& request);

// Can the step be planned with this answer? kUserFunction names the function, its version, the step
// and the first bad row or bin.
Status check_answer(const model::JobSpec& spec, const model::CalloutRequest& request,
                    std::span<const int64_t> answer);

// Costs that a function answered, onto the samples and bins of a graph.
Status set_answered_costs(const model::Strategy& strategy, std::span<const int64_t> costs,
                          DGraph* graph);

}  // namespace overlord::plan
