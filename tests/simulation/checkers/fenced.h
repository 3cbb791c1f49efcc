// Nobody heeds a term or a generation after a newer one: no earlier planner writes into the
// journal, no process is placed twice in one generation, and what the dead say has no effect. The
// simulated carriers put words into their mouths that end the stream where they are believed.
#pragma once

#include "overlord/sim/cluster.h"
#include "simulation/checkers/breach.h"

namespace overlord::sim::checkers {

inline Breach fenced(SimCluster& cluster) {
  const Sightings seen = cluster.sightings();
  if (cluster.journal().late_writes() > 0) return "an earlier term has written into the journal";
  if (seen.repeated_generations > 0) return "a group was placed again in a generation of before";
  if (seen.unequal_reposts > 0) return "a window was posted again and is another";
  for (const Rank rank : cluster.ranks()) {
    const auto& failure = cluster.consumer(rank).failure();
    if (failure && failure->message().find(kFromTheDead) != std::string::npos) {
      return "rank " + std::to_string(rank) + " has heard the dead";
    }
  }
  return std::nullopt;
}

}  // namespace overlord::sim::checkers
