// Loaders that have blocks to read, decode or tokenise and come no further: their storage does not
// answer, or a worker stands still, while the process says every moment that it lives.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "overlord/node/engine/engine.h"

namespace overlord::node {

class StuckLoaders {
 public:
  // Of the loaders that are told, other than shadows: how long the longest has come no further.
  uint64_t longest_ms(const EngineStatus& status, int64_t now_ns);

 private:
  struct Place {
    uint64_t progress = 0;
    int64_t since_ns = 0;
  };
  std::map<std::pair<std::string, uint32_t>, Place> places_;  // by source and slot
};

}  // namespace overlord::node
