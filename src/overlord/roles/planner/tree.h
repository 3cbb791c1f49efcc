// The place tree that plans are made with, and its rebuilding: an event that is journalled and
// counts from a step boundary on. It changes where things go, never what a step holds.
#pragma once

#include "overlord/plan/place_tree.h"
#include "overlord/roles/planner/logic.h"

namespace overlord::planner {

// Builds the tree of another mesh for steps from `first` on. Fails on a mesh with another number of
// ranks or data-parallel groups (other constructors would be needed: resume from a state instead)
// and on one that the job does not fit.
Result<Reaction> rebuild_tree(const PlannerJob& job, const PlannerState& state,
                              const model::Mesh& mesh, StepIndex first);

// What the plan of a step is made from, by the tree that holds then.
plan::PlanInputs inputs_at(const PlannerJob& job, const PlannerState& state, StepIndex step);

}  // namespace overlord::planner
