// How many slots read a source, while the stream runs: an event that is journalled and counts from
// the first window that is not granted. It changes who reads, never what a step holds.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "overlord/model/scale_inputs.h"
#include "overlord/roles/planner/logic.h"

namespace overlord::planner {

// Slots of a source for windows that are not granted yet.
uint32_t newest_slots(const PlannerJob& job, const PlannerState& state, SourceIndex source);

// What a decision about a source rests on before anything is measured.
model::ScaleInputs scale_inputs(const PlannerJob& job, const PlannerState& state,
                                SourceIndex source, model::ScaleRule rule);

// Who reads sources that may grow, from the first window on: hosts that have sized them otherwise,
// and planners that come after this one, go by what is said here.
std::vector<protocol::OwnersRecord> owners_at_start(const PlannerJob& job,
                                                    const PlannerState& state);

// As many slots as follow from the inputs, which are written down with the reason; or, where
// changes are only advised, written down alone, if it is news. Nothing where the source has them,
// where a change of it is on its way, or nothing is to be planned any more.
void change_slots(const PlannerJob& job, const PlannerState& state, SourceIndex source,
                  model::ScaleInputs inputs, std::string reason, Reaction* out);
// Somebody wishes that many. More than there are is as many as there are.
void wish_slots(const PlannerJob& job, const PlannerState& state, SourceIndex source,
                uint32_t slots, std::string reason, Reaction* out);

// How far ahead of a shift in the mixture its sources are made ready: some runways.
StepIndex steps_foreseen(const PlannerJob& job);

// Records that say the same as those in use, without ranges that no plan from `base` on goes by.
std::vector<protocol::OwnersRecord> forgettable(const PlannerState& state,
                                                const model::StreamState& base);

}  // namespace overlord::planner
