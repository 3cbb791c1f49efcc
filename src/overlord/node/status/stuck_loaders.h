// Loaders that have blocks to read, decode or tokenise and come no further: their storage does not
// answer, or a worker stands still, while the process says every moment that it lives. A process
// that is busy, itself or with its workers, is at work on something that takes long.
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
  // `cpu_ns`: what the process and its workers have used so far.
  uint64_t longest_ms(const EngineStatus& status, int64_t cpu_ns, int64_t now_ns);

 private:
  struct Place {
    uint64_t progress = 0;
    int64_t since_ns = 0;
  };
  std::map<std::pair<std::string, uint32_t>, Place> places_;  // by source and slot
  int64_t cpu_ns_ = 0, looked_ns_ = 0;
};

}  // namespace overlord::node
