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
  uint32_t bucket = 0;
  uint32_t prefetch_steps = 2;
  model::Versions versions;
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
using Effect = std::variant<Send, HandOver, Answered>;

struct Reaction {
  std::vector<Event> events;
  std::vector<Effect> effects;
};

Reaction on_message(const ClientJob& job, const ClientState& state,
                    const protocol::Envelope& envelope);
Reaction next_work(const ClientJob& job, const ClientState& state);

}  // namespace overlord::client
