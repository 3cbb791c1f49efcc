// Hybrid data parallelism from C++ to Python: groups as flat arrays.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "overlord/model/hdp.h"
#include "owned_array.h"

namespace overlord::python {

inline void put_groups(std::span<const model::HdpGroup> groups, nanobind::dict* out) {
  std::vector<uint32_t> ranks, rank_ends, sequences, sequence_ends, microbatches, offload;
  std::vector<uint64_t> tokens, targets;
  std::vector<int64_t> costs, starts;
  for (const model::HdpGroup& group : groups) {
    ranks.insert(ranks.end(), group.ranks.begin(), group.ranks.end());
    rank_ends.push_back(static_cast<uint32_t>(ranks.size()));
    sequences.insert(sequences.end(), group.sequences.begin(), group.sequences.end());
    sequence_ends.push_back(static_cast<uint32_t>(sequences.size()));
    microbatches.push_back(group.microbatch);
    offload.push_back(group.offload_permille);
    tokens.push_back(group.tokens);
    targets.push_back(group.targets);
    costs.push_back(group.cost_ns);
    starts.push_back(group.start_ns);
  }
  nanobind::dict& d = *out;
  d["ranks"] = owned_array(std::move(ranks));
  d["rank_ends"] = owned_array(std::move(rank_ends));
  d["sequences"] = owned_array(std::move(sequences));
  d["sequence_ends"] = owned_array(std::move(sequence_ends));
  d["microbatches"] = owned_array(std::move(microbatches));
  d["offload_permille"] = owned_array(std::move(offload));
  d["tokens"] = owned_array(std::move(tokens));
  d["group_targets"] = owned_array(std::move(targets));
  d["cost_ns"] = owned_array(std::move(costs));
  d["start_ns"] = owned_array(std::move(starts));
}

}  // namespace overlord::python
