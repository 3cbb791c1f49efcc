// Transform: a user's own Python over the rows of one source, or over the items of one of its media
// fields, as the config and its decorator declare it. Which function it is, and in which version,
// is part of the source's digest; how it is run never changes what it gives and is not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "overlord/base/fields.h"

namespace overlord::model {

// Where users' Python runs: in spawned workers, or on threads of the process that hosts the engine.
enum class Lane : uint8_t { kProcess, kThread };

struct Transform {
  std::string function;  // module:name; empty: there is none
  std::string version;
  Lane lane = Lane::kProcess;
  std::vector<std::string> command;    // starts one worker
  uint32_t workers = 2;                // per host process of loaders
  uint32_t batch_rows = 64;            // of one call
  uint32_t deadline_ms = 30'000;       // of one call
  uint64_t memory_bytes = 2ull << 30;  // resident, of one worker
  uint32_t check_every = 100;          // one batch in so many is run twice; 0: none

  bool declared() const { return !function.empty(); }
  // What a worker must say of itself before it gets rows.
  std::string key() const { return function + "@" + version; }

  friend bool operator==(const Transform&, const Transform&) = default;

  OVERLORD_FIELDS(function, version, lane, command, workers, batch_rows, deadline_ms, memory_bytes,
                  check_every)
};

}  // namespace overlord::model
