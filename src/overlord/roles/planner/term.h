// A term: the time of one planner. One that goes on from the journal of another opens its term with
// every role first, so that none heeds the planner before it any more, even if that one still
// lives: a lock does not fence a process that was only stopped.
#pragma once

#include "overlord/roles/planner/logic.h"

namespace overlord::planner {

// Loaders and constructors: they are to promise. Nothing else may be done before all have.
std::vector<Event> must_promise(const PlannerJob& job, const PlannerState& state);
// Asks those that have not.
Reaction open_term(const PlannerState& state);
// All have promised: they are told where the stream ends, if it does, and are granted metadata.
Reaction on_opened(const PlannerJob& job, const PlannerState& state);
// Every plan of the earlier terms is made again: clients send what may not have been heard.
Reaction on_remade(const PlannerJob& job);

void ask_to_promise(const protocol::Address& role, Reaction* out);
// Is it one of those that must promise?
bool is_asked(const PlannerState& state, const protocol::Address& role);
// A role that was told more than this planner knows, or something else, ends the stream by name.
void check_promise(const PlannerJob& job, const PlannerState& state, const protocol::Address& role,
                   const protocol::TermPromised& promise, Reaction* out);
// The same for a plan that was made again: ok, or both hashes.
Status check_remade(const PlannerState& state, const model::Plan& plan);

}  // namespace overlord::planner
