// No plan is published before it is durable: what a planner that starts this moment would read
// tells of it.
#pragma once

#include "overlord/sim/cluster.h"
#include "simulation/checkers/breach.h"

namespace overlord::sim::checkers {

inline Breach durable_first(const SimCluster& cluster) {
  const Sightings seen = cluster.sightings();
  if (seen.published == 0) return "no plan was seen";
  if (seen.published_early == 0) return std::nullopt;
  return std::to_string(seen.published_early) + " of " + std::to_string(seen.published) +
         " plans were told before the journal had them";
}

}  // namespace overlord::sim::checkers
