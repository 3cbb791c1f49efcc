#include "overlord/runtime/steady_clock.h"

#include <chrono>

namespace overlord::runtime {

int64_t steady_now_ns() {
  const auto since_start = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since_start).count();
}

}  // namespace overlord::runtime
