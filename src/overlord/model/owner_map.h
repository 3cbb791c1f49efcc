// OwnerMap: who reads what (law 8). Outside the plan: it can change at a step boundary and no
// byte of the stream changes with it. Ranges are cut at shuffle-window edges.
#pragma once

#include <cstdint>
#include <vector>

#include "overlord/base/ids.h"

namespace overlord::model {

struct LoaderSlot {
  SourceIndex source = 0;
  uint32_t slot = 0;

  friend auto operator<=>(const LoaderSlot&, const LoaderSlot&) = default;
};

struct OwnerMap {
  uint32_t version = 1;         // Versions::owner_map of messages that rest on it
  std::vector<uint32_t> slots;  // per source, >= 1
};

// The slot that reads a window of a pass. Whoever wants to know asks here, so that a map of another
// kind changes this function and nothing else.
inline uint32_t owner_of(SourceIndex source, uint64_t window, const OwnerMap& map) {
  return static_cast<uint32_t>(window % map.slots[source]);
}

}  // namespace overlord::model
