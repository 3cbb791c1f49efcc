// PlannerProbe: counters others may read from any thread while the planner runs.
#pragma once

#include <atomic>
#include <cstdint>

#include "overlord/base/counts.h"

namespace overlord::planner {

// Sums over all plans of an encoder's layer.
template <template <typename> typename Cell>
struct EncoderCounts {
  Cell<int64_t> predicted_ns{0};
  Cell<int64_t> arrival_ns{0};
  Cell<int64_t> mean_ns{0};  // of an encoder, had all the same
  Cell<int64_t> bound_ns{0};

  OVERLORD_FIELDS(predicted_ns, arrival_ns, mean_ns, bound_ns)
};

template <template <typename> typename Cell>
struct PlannerCounts {
  Cell<uint64_t> plans{0};
  Cell<uint64_t> plans_remade{0};  // those of earlier terms
  Cell<uint64_t> planning_ns{0};
  // Sums over all plans of a strategy with a cost: predicted step time, the same had bins been
  // dealt in arrival order, the fullest consumer, and what it could not be below.
  Cell<int64_t> predicted_ns{0};
  Cell<int64_t> arrival_ns{0};
  Cell<int64_t> fullest_ns{0};
  Cell<int64_t> bound_ns{0};
  EncoderCounts<Cell> encoder;
  // Sums over all plans: segments, those that waited, and the steps they waited.
  Cell<uint64_t> segments{0};
  Cell<uint64_t> segments_waited{0};
  Cell<uint64_t> steps_waited{0};
  Cell<uint32_t> longest_wait{0};  // steps
  Cell<uint64_t> waits{0};         // attempts that lacked metadata
  Cell<uint64_t> meta_windows{0};  // posted so far
  // Users' functions: answers so far and the time they took.
  Cell<uint64_t> callouts{0};
  Cell<uint64_t> callout_ns{0};

  OVERLORD_FIELDS(plans, plans_remade, planning_ns, predicted_ns, arrival_ns, fullest_ns, bound_ns,
                  encoder, segments, segments_waited, steps_waited, longest_wait, waits,
                  meta_windows, callouts, callout_ns)
};

struct PlannerProbe : PlannerCounts<std::atomic> {
  static constexpr uint32_t kHere = 0xffffffff;  // no rank: the planner's own process

  std::atomic<uint32_t> term{1};
  std::atomic<uint64_t> next_step{0};
  std::atomic<uint64_t> late_bad{0};
  std::atomic<uint64_t> feedback{0};            // steps whose feedback is complete
  std::atomic<uint64_t> waits_for_feedback{0};  // of step n - 1; 0: of none
  std::atomic<uint64_t> waits_for_rule{0};      // which was asked about step n - 1; 0: it was not
  std::atomic<int64_t> waiting_since_ns{0};     // 0: not waiting for metadata
  std::atomic<uint32_t> waiting_source{0};
  // Which user's function is asked now (a model::CalloutKind; 0: none), about which step, since
  // when.
  std::atomic<uint8_t> asked_kind{0};
  std::atomic<uint32_t> asked_rank{kHere};  // where
  std::atomic<uint64_t> asked_step{0};
  std::atomic<int64_t> asked_since_ns{0};
};

}  // namespace overlord::planner
