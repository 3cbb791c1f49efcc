// What it takes to hand bytes to another process of this host: for `overlord bench handover`.
// Two processes talk through Endpoint and Carrier as a constructor and a rank do. The maker stamps
// the time into a buffer of its shared pool that is finished, and sends it; the taker's waiting
// thread gets the view, reads the stamp and the last byte, and answers. On a loaded machine most of
// the tail is threads that could run and have no core: the kernel counts that (schedstat), and it
// is told apart.
#pragma once

#include <cstdint>
#include <string>

#include "overlord/base/status.h"

namespace overlord::bench {

struct HandoverFigures {
  double p50_us = 0, p99_us = 0;  // from the finished buffer to the waiting thread
  // The same without the time in which a thread of the taker was ready and waited for a core.
  double own_p50_us = 0, own_p99_us = 0;
  double queued_p99_us = 0;                   // that time
  double round_p50_us = 0, round_p99_us = 0;  // and until the maker heard the answer
  uint64_t inline_bytes = 0;                  // that travelled instead of being shared: copies
  uint64_t frame_bytes = 0;                   // of all frames of a hand-over
};

// Forks: to be called before any thread is started. `directory` is 0700 and empty.
Result<HandoverFigures> measure_handover(const std::string& directory, uint64_t size_bytes,
                                         uint32_t rounds);

}  // namespace overlord::bench
