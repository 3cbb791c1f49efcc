// SteadyClock: the Clock of real nodes, std::chrono::steady_clock in nanoseconds.
// Stateless and thread-safe; owned by the node. It never jumps back and never tells the time of
// day.
#pragma once

#include <cstdint>

#include "overlord/runtime/seams.h"

namespace overlord::runtime {

// For code that already lives in real time (threads, sockets); role code asks its Clock.
int64_t steady_now_ns();

class SteadyClock final : public Clock {
 public:
  int64_t now_ns() override { return steady_now_ns(); }
};

}  // namespace overlord::runtime
