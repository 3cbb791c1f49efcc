// ClientProbe: counters of one rank, readable from any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "overlord/base/counts.h"

namespace overlord::client {

template <template <typename> typename Cell>
struct ClientCounts {
  Cell<uint64_t> steps_arrived{0};
  Cell<uint64_t> steps_consumed{0};
  Cell<uint64_t> microbatches{0};  // returned by next()
  Cell<uint64_t> wait_ns{0};       // exposed to the trainer

  OVERLORD_FIELDS(steps_arrived, steps_consumed, microbatches, wait_ns)
};

using ClientProbe = ClientCounts<std::atomic>;

}  // namespace overlord::client
