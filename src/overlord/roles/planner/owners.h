// How many slots read a source, while the stream runs: an event that is journalled and counts from
// the first window that is not granted. It changes who reads, never what a step holds.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "overlord/plan/partition/scaler.h"
#include "overlord/roles/planner/logic.h"

namespace overlord::planner {

// Slots of a source for windows that are not granted yet.
uint32_t newest_slots(const PlannerJob& job, const PlannerState& state, SourceIndex source);

// Somebody wants that many slots for a source, for a reason that is written down. Nothing where it
// has them, where a change of it is on its way, or nothing is to be planned any more. More than
// there are is as many as there are.
void change_slots(const PlannerJob& job, const PlannerState& state, SourceIndex source,
                  uint32_t slots, std::string reason, Reaction* out);

// How far ahead of a shift in the mixture its sources are made ready: some runways.
StepIndex steps_foreseen(const PlannerJob& job);

// What the scaler says after an interval, done or only written down. Sources that cannot grow are
// left alone.
Reaction scale(const PlannerJob& job, const PlannerState& state, uint64_t interval_ns,
               plan::Scaler& scaler);

// Records that say the same as those in use, without ranges that no plan from `base` on goes by.
std::vector<protocol::OwnersRecord> forgettable(const PlannerState& state,
                                                const model::StreamState& base);

}  // namespace overlord::planner
