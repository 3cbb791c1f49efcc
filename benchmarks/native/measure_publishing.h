// What a planner spends on telling everybody of its plans: for `overlord bench scaling`. Plans are
// made over made-up metadata and go through the carrier of a node to as many processes of loaders
// and constructors as there are to be, each a socket that somebody empties. Nothing is encrypted.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "made_up_planner.h"
#include "overlord/base/status.h"

namespace overlord::bench {

struct PublishedPlans {
  Planned planned;
  std::vector<double> publish_ms;  // CPU of a step: index, encoding, sending
  uint64_t bytes = 0;              // sent, in all
  uint64_t frames = 0;
};

// One process of constructors for each data-parallel group; the loaders of all sources, one each,
// are dealt over `loader_processes`.
Result<PublishedPlans> publish_plans(const model::JobSpec& spec, const model::Mesh& mesh,
                                     std::span<const uint32_t> lengths, uint32_t steps,
                                     uint32_t loader_processes);

}  // namespace overlord::bench
