// Variable-length bins: the samples of a step are dealt one by one, and every microbatch is as long
// as what it got, up to a limit. Long contexts need it: sequences of equal length then hold unequal
// work, and no dealing of whole sequences can even that out.
//
// What the step holds does not change (law 2). Where samples do not fit into as many microbatches
// as the step's sequences would have made, every consumer gets one more.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/model/plan.h"
#include "overlord/model/strategy.h"
#include "overlord/plan/balance/balance.h"

namespace overlord::plan {

struct CutShape {
  uint32_t consumers = 1;
  uint32_t rounds = 1;  // microbatches of a consumer and substep, to begin with
  uint32_t substeps = 1;
  uint32_t limit = 0;  // tokens of a microbatch; no sample is longer
  uint32_t align = 1;  // samples take their length rounded up to it
  uint32_t unit = 1;   // microbatches are as long as a multiple of it
  uint32_t more = 1;   // rounds that are added at once: interleaved pipelines need multiples
};

// Bins in the order consumer, substep, microbatch; one bin is one microbatch.
struct CutStep {
  uint32_t microbatches = 0;  // of every consumer
  std::vector<model::Segment> segments;
  std::vector<int64_t> costs;  // of the segments
  std::vector<uint32_t> from;  // which of the step's segments each is
  std::vector<uint32_t> bin_ends;
  std::vector<uint32_t> capacities;
};

// `bin_ends`: the sequences that were packed; each substep has equally many of them.
Result<CutStep> cut_samples(model::BalanceMethod method, const CutShape& shape,
                            std::span<const model::Segment> segments,
                            std::span<const int64_t> costs, std::span<const uint32_t> bin_ends,
                            Balancer* balancer);

}  // namespace overlord::plan
