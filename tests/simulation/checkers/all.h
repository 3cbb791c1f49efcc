// All promises that hold of a run that nothing has ended, whatever went wrong on the way.
#pragma once

#include "simulation/checkers/bounded.h"
#include "simulation/checkers/durable_first.h"
#include "simulation/checkers/fenced.h"
#include "simulation/checkers/progress.h"
#include "simulation/checkers/same_stream.h"

namespace overlord::sim::checkers {

// The cause before what follows from it.
inline Breach undisturbed(SimCluster& cluster, bool finished, const Scenario& scenario,
                          const Digest& expected) {
  if (Breach breach = fenced(cluster)) return breach;
  if (Breach breach = progress(cluster, finished)) return breach;
  if (Breach breach = durable_first(cluster)) return breach;
  if (Breach breach = bounded(cluster, scenario)) return breach;
  return same_stream(cluster, expected);
}

}  // namespace overlord::sim::checkers
