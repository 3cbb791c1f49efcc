// What this process did and when, remembered for as long as somebody draws a picture of it. One
// book per process: roles that share one are drawn on the same threads. Off, an event costs a
// relaxed load; on, the newest events are kept and older ones forgotten.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/guarded_by.h"

namespace overlord::runtime {

struct TraceEvent {
  std::string_view what;  // a literal
  std::string whose;      // source, group or rank
  int64_t begin_ns = 0;
  int64_t duration_ns = 0;
  int64_t step = kNoStep;
  uint64_t thread = 0;

  static constexpr int64_t kNoStep = -1;
};

class TraceBook {
 public:
  explicit TraceBook(size_t most_events = 1 << 16) : most_events_(most_events) {}
  static TraceBook& of_process();

  bool on() const { return on_.load(std::memory_order_relaxed); }
  void start();
  std::vector<TraceEvent> stop();  // what was kept, in the order in which it ended
  // Forgotten while off. `what` must live for ever.
  void note(std::string_view what, std::string whose, int64_t begin_ns, int64_t end_ns,
            int64_t step = TraceEvent::kNoStep);

 private:
  const size_t most_events_;
  std::atomic<bool> on_{false};
  std::mutex mutex_;
  std::deque<TraceEvent> events_ OVERLORD_GUARDED_BY(mutex_);
};

inline bool tracing() { return TraceBook::of_process().on(); }

}  // namespace overlord::runtime
