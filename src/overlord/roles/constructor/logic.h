// Constructor logic: pure reactions of one data-parallel group. Pulls what its clients want, oldest
// step first, within its byte budget; the oldest unserved step always fits (law 11).
#pragma once

#include <cstdint>
#include <map>
#include <variant>
#include <vector>

#include "overlord/model/mesh.h"
#include "overlord/protocol/messages.h"
#include "overlord/roles/constructor/state.h"

namespace overlord::constructor {

struct ConstructorJob {
  uint32_t bucket = 0;
  uint32_t tree = 1;  // whose plans it makes
  uint32_t sources = 0;
  model::Versions versions;
  bool wants_payload = true;  // some rank here sees tokens, or encodes media
  uint64_t step_bytes = 0;    // slabs of one step
  uint64_t budget_bytes = 0;
  std::vector<uint64_t> media_row_bytes;  // of the job's delivered fields
};

struct Send {
  protocol::Address to;
  protocol::Message message;
};
struct Keep {  // hold on to a payload's spans until the step is assembled
  protocol::PayloadPtr payload;
};
struct Assemble {
  StepIndex step = 0;
};
struct Deliver {
  Rank rank = 0;
  StepIndex step = 0;
};
using Effect = std::variant<Send, Keep, Assemble, Deliver>;

struct Reaction {
  std::vector<Event> events;
  std::vector<Effect> effects;
};

Reaction on_message(const ConstructorJob& job, const ConstructorState& state,
                    const protocol::Envelope& envelope);
// Packed media of a step's payloads that did not decode, by loader: their documents become holes
// the way all late bad rows do, so the loaders are asked again and told.
Reaction on_undecodable(
    const ConstructorJob& job, const ConstructorState& state, StepIndex step,
    const std::map<protocol::Address, std::vector<protocol::Undecodable>>& found);
// A user's function over a microbatch of the step has failed: no group gets it any more.
Reaction on_transform_failed(const ConstructorState& state, StepIndex step, const Status& status);
// Steps that may start, and deliveries that are due; call until it returns nothing.
Reaction next_work(const ConstructorJob& job, const ConstructorState& state);

}  // namespace overlord::constructor
