// Client logic: pure reactions of one rank. Keeps `prefetch` steps asked for ahead of the one the
// trainer is on, hands steps over in order, acknowledges what the trainer has left behind.
#pragma once

#include <variant>
#include <vector>

#include "overlord/protocol/messages.h"
#include "overlord/roles/client/state.h"

namespace overlord::client {

struct ClientJob {
  Rank rank = 0;
  uint32_t bucket = 0;  // of the first tree
  uint32_t prefetch_steps = 2;
  model::Versions versions;
  uint32_t reports_kept = 64;  // at least as many steps as a report may wait before it counts
};

struct Send {
  protocol::Address to;
  protocol::Message message;
};
struct HandOver {
  ReadyStep ready;
};
struct Answered {  // a report of this rank
  protocol::ReportAnswered answer;
};
struct RuleAsked {  // the user's mixing rule, which lives where this rank does
  model::StepFeedback question;
};
struct CalloutAsked {  // a user's function of the strategy; the same
  protocol::CalloutAsked asked;
};
using Effect = std::variant<Send, HandOver, Answered, RuleAsked, CalloutAsked>;

struct Reaction {
  std::vector<Event> events;
  std::vector<Effect> effects;
};

// A client that comes back says so: the planner may wait for what the one before was asked.
Reaction on_start(const ClientJob& job);
Reaction on_message(const ClientJob& job, const ClientState& state,
                    const protocol::Envelope& envelope);
Reaction next_work(const ClientJob& job, const ClientState& state);
// The trainer is done with a step, which was planned for this tree. A constructor that is asked for
// nothing any more is told.
Reaction on_consumed(const ClientJob& job, const ClientState& state, StepIndex step, uint32_t tree);
// Something for the planner: a report of this rank, or what a user's rule has answered.
Reaction on_telling(const ClientState& state, const protocol::Message& message);
// Steps from `first_step` on are of another tree: what was asked for of them and has not come is
// asked for at its constructor. The steps before stay where they are.
Reaction on_reseated(const ClientJob& job, const ClientState& state, StepIndex first_step,
                     const protocol::Address& constructor);
// A step that may have been read is placed again: the stream goes on with it, in another place.
Reaction on_restarted(const ClientState& state, const Restarted& restarted);

}  // namespace overlord::client
