// Metric-driven mixing: how reported losses move the weights. Pure and in fixed point (law 10).
// One update a step, from the feedback that counts from that step on.
//
// odm (online data mixing): EXP3 over the sources. The reward of a source is its mean loss over the
// share it really had in the reported step, averaged with `smoothing`; shares are a softmax of the
// rewards above a floor that shrinks as min(1/K, sqrt(ln K / (K t))) and is spread by the prior.
// ado (adaptive data optimization): a power law is fitted to each source's loss curve; sources
// whose loss falls fastest per token, for what they were already given, get more. rule: the weights
// come with the feedback, from a function of the user's.
//
// A source with weight in the prior always keeps some, so which sources give never changes.
#pragma once

#include <optional>

#include "overlord/model/job_spec.h"

namespace overlord::plan {

// Before any feedback: the prior. Empty for a mixture that is not metric-driven. `since`: the first
// step whose feedback will count.
model::ControllerState initial_controller(const model::JobSpec& spec, StepIndex since);

// The step whose feedback must be in before `step` can be planned, if there is one.
std::optional<StepIndex> feedback_needed(const model::ControllerState& controller, StepIndex step);

void take_feedback(const model::JobSpec& spec, const model::StepFeedback& feedback,
                   model::ControllerState* controller);

}  // namespace overlord::plan
