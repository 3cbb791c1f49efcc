// Every rank got the bytes of an undisturbed run, in its order, and nothing failed.
#pragma once

#include "overlord/sim/cluster.h"
#include "simulation/checkers/breach.h"

namespace overlord::sim::checkers {

inline Breach same_stream(SimCluster& cluster, const Digest& expected) {
  if (const auto failure = cluster.failure()) return "the stream failed: " + failure->message();
  const Digest got = cluster.stream_hash();
  if (got == expected) return std::nullopt;
  return "another stream: " + got.hex() + " instead of " + expected.hex();
}

}  // namespace overlord::sim::checkers
