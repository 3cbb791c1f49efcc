// The order of microbatches in a pipeline: small ends, or a search judged by PipelineSchedule.
//
// Microbatches of unequal cost leave gaps in a pipeline, and how many depends on their order:
// filling and draining it is cheap with small microbatches, and neighbours should be alike. "Small
// ends" puts the largest in the middle, smaller ones outwards on both sides. The search starts from
// the best of the simple orders, swaps two microbatches or moves one, and goes on from a disturbed
// copy of the best when nothing helps any more. Critical chains seen before rule most changes out
// without running the pipeline. Everything is integers and a fixed key, and the work is bounded by
// a count of operations, so the order is the same on every machine.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/model/strategy.h"
#include "overlord/plan/pipeline/pipeline_schedule.h"

namespace overlord::plan {

using model::OrderMethod;

struct Ordered {
  std::vector<uint32_t> order;  // microbatch of every place
  int64_t makespan = 0;
  int64_t lower_bound = 0;    // no order is faster
  int64_t kept_makespan = 0;  // of the order in which the microbatches came
};

struct SearchLimits {
  // Steps of the search: one run of a microbatch on a stage, or one place of a chain looked at;
  // some 5 ns each.
  uint64_t operations = 300'000;
  int64_t good_enough = 0;  // a makespan that needs no improving
};

Result<Ordered> order_microbatches(OrderMethod method, const PipelineShape& shape,
                                   std::span<const int64_t> costs, const SearchLimits& limits = {});

// The pipelines of one step (one per data-parallel rank), equally many microbatches each: a step
// ends when the last pipeline does. A search looks only at pipelines that hold the step up.
struct OrderedStep {
  std::vector<Ordered> pipelines;
  int64_t step_time = 0;    // longest makespan
  int64_t lower_bound = 0;  // of the step time
  int64_t kept_step_time = 0;
};

// `costs`: those of the first pipeline, then of the second, and so on.
Result<OrderedStep> order_step(OrderMethod method, const PipelineShape& shape,
                               std::span<const int64_t> costs, uint32_t pipelines,
                               const SearchLimits& limits = {});

}  // namespace overlord::plan
