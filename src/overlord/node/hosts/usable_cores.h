// The cores that this process, and what it starts, may run on.
#pragma once

#include <sched.h>

#include <cstdint>

namespace overlord::node {

inline uint32_t usable_cores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) != 0) return 1;
  return static_cast<uint32_t>(CPU_COUNT(&cores));
}

}  // namespace overlord::node
