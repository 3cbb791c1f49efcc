// ClientProbe: counters of one rank, readable from any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace overlord::client {

struct ClientProbe {
  std::atomic<uint64_t> steps_arrived{0};
  std::atomic<uint64_t> steps_consumed{0};
  std::atomic<uint64_t> microbatches{0};  // returned by next()
  std::atomic<uint64_t> wait_ns{0};       // exposed to the trainer
};

}  // namespace overlord::client
