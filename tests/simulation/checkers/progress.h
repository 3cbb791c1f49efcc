// Nothing hangs: while no fault lasts, some rank gets on within a while.
#pragma once

#include "overlord/sim/cluster.h"
#include "simulation/checkers/breach.h"

namespace overlord::sim::checkers {

inline constexpr int64_t kWhileNs = 1'000'000'000;

// `finished`: what SimCluster::run() has said.
inline Breach progress(SimCluster& cluster, bool finished) {
  if (!finished) {
    const auto failure = cluster.failure();
    return "hangs" + (failure ? ", and some rank has failed: " + failure->message() : "");
  }
  const int64_t waited_ns = cluster.world().longest_wait_ns();
  if (waited_ns < kWhileNs) return std::nullopt;
  return "nobody got on for " + std::to_string(waited_ns) + " ns though nothing was wrong";
}

}  // namespace overlord::sim::checkers
