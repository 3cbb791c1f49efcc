// The memory of microbatches of whole sequences: bytes by the strategy's cost model, summed over a
// microbatch's bins, and the limit that a strategy sets.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/model/strategy.h"
#include "overlord/plan/place/dgraph.h"

namespace overlord::plan {

// Bytes of every bin.
Result<std::vector<int64_t>> bin_bytes(const model::CostModel& cost, const DGraph& graph);

// The first of the microbatches that takes the most.
struct LargestMicrobatch {
  uint32_t consumer = 0;
  uint32_t microbatch = 0;
  int64_t bytes = 0;
};
LargestMicrobatch largest_microbatch(const std::vector<int64_t>& bytes, const DGraph& graph);

// Says which sample fills the microbatch, where even arrival order breaks the limit.
Status over_memory(const model::Strategy& strategy, const std::vector<int64_t>& bytes,
                   const DGraph& graph);

}  // namespace overlord::plan
