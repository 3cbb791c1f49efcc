// HeldBytes: how much memory something holds now and the most it has held, counted by whoever takes
// and lets go. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace overlord::runtime {

struct HeldBytes {
  std::atomic<uint64_t> now{0};
  std::atomic<uint64_t> peak{0};

  void take(uint64_t bytes) {
    const uint64_t held = now.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    uint64_t most = peak.load(std::memory_order_relaxed);
    while (held > most && !peak.compare_exchange_weak(most, held, std::memory_order_relaxed)) {
    }
  }
  void let_go(uint64_t bytes) { now.fetch_sub(bytes, std::memory_order_relaxed); }
};

using HeldBytesPtr = std::shared_ptr<HeldBytes>;

// Counts `bytes` for as long as the answer, which keeps `holder` alive too, is held by anybody. It
// may outlive whoever reads the count.
inline std::shared_ptr<const void> counted(HeldBytesPtr count, uint64_t bytes,
                                           std::shared_ptr<const void> holder = nullptr) {
  count->take(bytes);
  const void* const whole = count.get();
  return {whole,
          [count = std::move(count), bytes, holder = std::move(holder)](const void*) mutable {
            count->let_go(bytes);
            holder.reset();
          }};
}

}  // namespace overlord::runtime
