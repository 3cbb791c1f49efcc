// Loader logic: pure reactions of one loader slot. Posts metadata ahead under grants, answers
// positional fetches once their plan is known. Oldest step first (law 11).
#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "overlord/model/owner_map.h"
#include "overlord/protocol/messages.h"
#include "overlord/roles/loader/state.h"

namespace overlord::loader {

struct LoaderJob {
  SourceIndex source = 0;
  uint32_t slot = 0;
  uint32_t slots = 1;    // of the source, where nobody says otherwise
  uint32_t workers = 1;  // windows and fetches in work at once
  uint64_t windows_per_pass = 1;
  bool one_pass = false;  // the source ends after its first pass: nothing to post behind it
  uint32_t runway = 4;    // a plan this many steps older than the newest is served to all
  model::Versions versions;
  bool warm = false;        // while it stands by it reads what plans name
  bool tells_load = false;  // the planner decides how many slots there are

  // `window`: of the endless sequence.
  uint32_t slots_at(uint64_t window, std::span<const model::OwnerRange> owners) const {
    return model::Owners{slots, owners}.slots_at(window);
  }
  bool owns(uint64_t window, std::span<const model::OwnerRange> owners) const {
    return model::Owners{slots, owners}.owner_of(window, windows_per_pass) == slot;
  }
};

struct MakeWindow {  // decode or look up the metadata of this window, then post it
  uint64_t sequence = 0;
};
struct Serve {  // read what (step, bucket) needs of this slot, then send it
  FetchKey key;
};
struct Tell {  // the planner
  protocol::Message message;
};
struct Answer {  // send what was read: its holes are in the journal
  FetchKey key;
};
struct Warm {  // a shadow has the blocks of this plan ready, as far as the budget has room
  StepIndex step = 0;
};
using Effect = std::variant<MakeWindow, Serve, Tell, Answer, Warm>;

struct Reaction {
  std::vector<Event> events;
  std::vector<Effect> effects;
};

Reaction on_message(const LoaderJob& job, const LoaderState& state,
                    const protocol::Envelope& envelope);
// It is the active one from now on, in the generation that `job` has by now. One that was active
// before says again what may have been refused.
Reaction on_promoted(const LoaderJob& job, const LoaderState& state);
// Work that may start now; call until it returns nothing.
Reaction next_work(const LoaderJob& job, const LoaderState& state);

}  // namespace overlord::loader
