// PlanReport: what a layer of a plan says about itself: how even it is, how even it could be, and
// what stands in the way. Derived from the plan; not part of its hash. Costs are nanoseconds by the
// strategy's cost model.
#pragma once

#include <cstdint>

#include "overlord/base/fields.h"
#include "overlord/base/ids.h"

namespace overlord::model {

// What sets the lower bound of the fullest consumer.
enum class BoundBy : uint8_t { kMean, kLargest, kPigeonhole };

struct PlanReport {
  uint32_t consumers = 1;
  uint32_t microbatches = 1;  // of each consumer
  int64_t total = 0;
  int64_t consumer_max = 0;  // cost of the fullest consumer
  int64_t consumer_min = 0;
  int64_t lower_bound = 0;  // no placement of these bins makes the fullest consumer cheaper
  BoundBy bound_by = BoundBy::kMean;
  int64_t microbatch_max = 0;
  int64_t microbatch_mean = 0;
  uint32_t limiting_consumer = 0;
  uint32_t limiting_bin = 0;  // the heaviest of that consumer
  SampleId limiting_sample;   // the heaviest of that bin
  int64_t limiting_sample_cost = 0;
  int64_t step_ns = 0;          // predicted, under the pipeline model
  int64_t arrival_step_ns = 0;  // predicted, had the bins been dealt in arrival order
  int64_t even_step_ns = 0;     // predicted for even microbatches; an order can beat it
  // What the fullest consumer could not be below, were the limiting sample split over all
  // consumers, or its bin left to another step and an average one taken instead.
  int64_t split_bound = 0;
  int64_t delay_bound = 0;
  int64_t halved_step_ns = 0;  // predicted for twice as many even microbatches of half the work
  int64_t memory_max = 0;      // bytes of the largest microbatch; 0: the cost model has none
  bool arrival_for_memory = false;  // balanced microbatches broke the memory limit, these do not

  OVERLORD_FIELDS(consumers, microbatches, total, consumer_max, consumer_min, lower_bound, bound_by,
                  microbatch_max, microbatch_mean, limiting_consumer, limiting_bin, limiting_sample,
                  limiting_sample_cost, step_ns, arrival_step_ns, even_step_ns, split_bound,
                  delay_bound, halved_step_ns, memory_max, arrival_for_memory)
};

}  // namespace overlord::model
