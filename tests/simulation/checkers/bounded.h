// Memory is bounded: no more is planned, held or decoded than runway and budgets allow, and whoever
// starts again posts no more than was lost.
#pragma once

#include <algorithm>

#include "overlord/sim/scenario.h"
#include "simulation/checkers/breach.h"

namespace overlord::sim::checkers {

inline Breach bounded(const SimCluster& cluster, const Scenario& scenario) {
  const Sightings seen = cluster.sightings();
  const uint64_t runway = scenario.options.plans_out();
  if (seen.most_plans_kept > runway) {
    return "the planner keeps " + std::to_string(seen.most_plans_kept) + " plans, the runway is " +
           std::to_string(runway);
  }
  if (seen.most_plans_ahead > runway) {
    return std::to_string(seen.most_plans_ahead) + " steps were planned ahead of the slowest rank" +
           ", the runway is " + std::to_string(runway);
  }
  if (seen.most_steps_held > runway) {
    return "a constructor holds " + std::to_string(seen.most_steps_held) + " steps";
  }
  if (seen.most_payload_bytes > scenario.options.payload_budget_bytes) {
    return "loaders hold " + std::to_string(seen.most_payload_bytes) + " bytes";
  }
  // A loader goes on where the posting stood, and a process has up to three; a planner that comes
  // back needs the metadata of what it makes again.
  const uint64_t restarts = 3 * 4 * seen.kills + 32 * seen.planner_kills;
  if (seen.reposts <= restarts) return std::nullopt;
  return std::to_string(seen.reposts) + " windows were posted again";
}

}  // namespace overlord::sim::checkers
