// Planner logic: pure reactions. (state, message) -> events to apply and effects to carry out.
// Never waits: what is missing is asked for, and the next message tries again (law 1).
#pragma once

#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "overlord/model/job_spec.h"
#include "overlord/model/mesh.h"
#include "overlord/model/owner_map.h"
#include "overlord/plan/place/placement.h"
#include "overlord/plan/select/source_windows.h"
#include "overlord/plan/select/step_selector.h"
#include "overlord/protocol/journal/journal_record.h"
#include "overlord/protocol/messages.h"
#include "overlord/roles/planner/state.h"

namespace overlord::planner {

// Everything that does not change while the planner runs.
struct PlannerJob {
  model::JobSpec spec;
  model::Mesh mesh;
  model::DeliverySpec delivery;
  std::vector<uint64_t> source_rows;
  std::shared_ptr<const model::ViewTable> views;
  std::vector<uint32_t> slots;       // per source, at the start
  std::vector<uint32_t> most_slots;  // that there are: the others wait to be given windows
  // Of those sources. Remembers what it was asked; null where every source has one slot.
  std::shared_ptr<plan::SourceWindows> windows = nullptr;
  model::Versions versions;       // of the plans, which no restart changes
  uint32_t generation = 1;        // of this planner, on what it sends: its term
  std::vector<uint32_t> buckets;  // constructors of the job's own tree that this planner serves
  uint32_t runway = 4;            // plans that are out, and not consumed
  uint32_t most_ahead = 0;        // plans beyond it that may be made for the journal's sake
  model::Scaling scaling;
  std::vector<Rank> ranks;      // whose clients are told of a new term
  std::vector<Rank> reporters;  // whose parts make up a step's feedback, ascending
};

struct Send {
  protocol::Address to;
  protocol::Message message;
};
struct Commit {  // journal first; Committed effects follow when it is durable
  model::PlanPtr plan;
};
struct JournalLateBad {  // then told to the slot that found it
  protocol::LateBad bad;
  protocol::Address loader;
};
struct JournalFeedback {  // all parts are in; `last` is answered when it is durable
  model::StepFeedback feedback;
  Rank last = 0;
};
struct JournalTree {  // applied when it is durable; nothing is planned meanwhile
  TreeChanged change;
};
struct JournalOwners {  // counts when it is durable; nothing of the source is granted meanwhile
  protocol::OwnersRecord record;
};
struct Ask {  // a user's function; on_answer() gets what it says
  model::CalloutRequest request;
};
struct Told {  // by a client: what a user's function has answered
  protocol::CalloutTold told;
};
struct AskAgain {  // if it was this client: what lived there before may not have heard it
  protocol::Address client;
};
struct Fail {  // before `step`; told to everybody when it is durable
  StepIndex step = 0;
  Status status;
};
struct JournalCallout {  // an answer that was checked; counts when it is durable
  protocol::CalloutRecord record;
};
using Effect = std::variant<Send, Commit, JournalLateBad, JournalFeedback, JournalTree,
                            JournalOwners, Ask, Told, AskAgain, JournalCallout, Fail>;

struct Reaction {
  std::vector<Event> events;
  std::vector<Effect> effects;
  std::optional<SourceIndex> waits_for;         // whose metadata the next step lacks
  std::optional<StepIndex> waits_for_feedback;  // of this step
};

Reaction on_message(const PlannerJob& job, const PlannerState& state,
                    const protocol::Envelope& envelope);
// The next step as it was selected, kept while a user's function is asked about it: what a step
// holds depends on nothing that could come in between.
struct StepDraft {
  StepIndex step = 0;
  std::optional<plan::Selection> selection;
};
// One attempt at the next step: a Commit, an Ask, or grants for what is missing, or nothing.
Reaction try_plan(const PlannerJob& job, const PlannerState& state, plan::StepSelector& selector,
                  plan::Placer& placer, StepDraft& draft);
// Where the functions of users are that a step is planned with: the first rank of its tree.
Rank asked_rank(const PlannerJob& job, const PlannerState& state, StepIndex step);
// A user's function has answered: to be journalled, or the end of the stream before this step.
Reaction on_answer(const PlannerJob& job, const PlannerState& state,
                   const model::CalloutRequest& request,
                   const Result<std::vector<int64_t>>& answer);
// A plan moves the cursors: what the next ones need is asked for.
Reaction on_made(const PlannerJob& job, const PlannerState& state);
// A window of the source has come: its workers are to have the next ones.
Reaction on_posted(const PlannerJob& job, const PlannerState& state, SourceIndex source);
// The next plan that everybody may hear of; null: none is durable, or the runway is full.
model::PlanPtr to_release(const PlannerJob& job, const PlannerState& state);
// Somebody has waited for the journal's disk: the plan that is durable now could have been told
// before. Then more is to be planned ahead.
bool is_late(const PlannerJob& job, const PlannerState& state);
// Everybody who needs it is told.
Reaction on_released(const PlannerJob& job, const PlannerState& state, const model::PlanPtr& plan);
// Everybody is told where the stream ends; constructors that start later are told again.
Reaction on_failed(const PlannerState& state);
// Grants before the first plan.
Reaction on_start(const PlannerJob& job, const PlannerState& state);

}  // namespace overlord::planner
