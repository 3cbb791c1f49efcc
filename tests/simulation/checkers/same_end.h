// Where a stream cannot go on, all ranks end before the same step, for the same reason.
#pragma once

#include "overlord/sim/cluster.h"
#include "simulation/checkers/breach.h"

namespace overlord::sim::checkers {

// What is found by who reads, and not by the planner, some ranks may be ahead of: `one_step` false.
inline Breach same_end(SimCluster& cluster, Code reason, bool one_step = true) {
  const StepIndex end = cluster.consumer(cluster.ranks().front()).state().state.next_step;
  for (const Rank rank : cluster.ranks()) {
    const std::string who = "rank " + std::to_string(rank);
    const host::Consumer& consumer = cluster.consumer(rank);
    if (!consumer.failure()) return who + " does not fail";
    if (consumer.failure()->code() != reason) {
      return who + " fails for another reason: " + consumer.failure()->message();
    }
    const StepIndex own = consumer.state().state.next_step;
    if (!one_step || own == end) continue;
    return who + " ends before step " + std::to_string(own) + ", others before " +
           std::to_string(end);
  }
  return std::nullopt;
}

}  // namespace overlord::sim::checkers
