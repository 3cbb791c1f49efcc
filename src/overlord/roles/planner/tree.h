// The place tree that plans are made with, and its rebuilding: an event that is journalled and
// counts from a step boundary on. It changes where things go, never what a step holds.
#pragma once

#include <memory>
#include <optional>

#include "overlord/plan/place/place_tree.h"
#include "overlord/protocol/state_codec.h"
#include "overlord/roles/planner/logic.h"

namespace overlord::planner {

// Somebody wants plans to be made for another mesh.
struct TreeWish {
  model::Mesh mesh;
  std::optional<StepIndex> step;  // the first that is for it; unset: the first that can be
  // Of the mesh, in its order; empty: all of the job. Where others were there before, planned steps
  // are placed again: from the first that not everybody has acknowledged.
  std::vector<Rank> ranks = {};
};

struct TreeDecision {
  StepIndex first_step = 0;                // from which the mesh holds
  std::optional<JournalTree> change = {};  // unset: it does already
};

// What a wish comes to. `next`: the first step that is not planned and not being planned. Ranks
// that all wish the same get the same answer, whoever was first. Fails on a mesh that has not as
// many ranks as it is for, on one that the job does not fit, and on a step that comes too early.
Result<TreeDecision> decide_tree(const PlannerJob& job, const PlannerState& state,
                                 const TreeWish& wish, StepIndex next);

// Whether a wish changes who is there.
bool changes_ranks(const PlannerJob& job, const PlannerState& state, const TreeWish& wish);

// Where a stream stands before a step that the journal still tells of; else null.
std::shared_ptr<const protocol::ResumeState> position_before(const JournalFold& fold,
                                                             StepIndex step);

// The tree as the journal has it.
TreeChanged tree_of(const PlannerJob& job, const protocol::TreeRecord& record);

// Constructors of earlier trees that nobody needs any more.
std::vector<protocol::Address> to_retire(const PlannerState& state);

// What the plan of a step is made from, by the tree that holds then.
plan::PlanInputs inputs_at(const PlannerJob& job, const PlannerState& state, StepIndex step);

}  // namespace overlord::planner
