// MemoryWatch: when a host that lends its memory wants fewer groups of loaders, or can take more
// again. It speaks up before the kernel has to end a process, and waits until what it said has
// shown: groups end and start slowly, and one that came back too early would go again.
#pragma once

#include <cstdint>
#include <optional>

namespace overlord::node {

struct HostMemory {
  uint64_t held_bytes = 0;       // by what was started here
  uint64_t given_bytes = 0;      // to it; 0: as much as there is
  uint64_t available_bytes = 0;  // of the machine, to anybody
  uint64_t total_bytes = 0;
};

// As it is now; `given_bytes` is as said.
HostMemory read_host_memory(uint64_t given_bytes);

class MemoryWatch {
 public:
  // What the lead is to be told now: true, one group less; false, one more than before.
  std::optional<bool> look(const HostMemory& memory, int64_t now_ns);

 private:
  std::optional<int64_t> asked_ns_;  // for less, the last time; unset: never
  std::optional<int64_t> roomy_ns_;  // since when there is room, or since it was last told
};

}  // namespace overlord::node
