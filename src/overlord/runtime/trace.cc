#include "overlord/runtime/trace.h"

#include <sys/syscall.h>
#include <unistd.h>

namespace overlord::runtime {

TraceBook& TraceBook::of_process() {
  static TraceBook book;
  return book;
}

void TraceBook::start() {
  const std::lock_guard lock(mutex_);
  events_.clear();
  on_ = true;
}

std::vector<TraceEvent> TraceBook::stop() {
  const std::lock_guard lock(mutex_);
  on_ = false;
  std::vector<TraceEvent> kept(std::make_move_iterator(events_.begin()),
                               std::make_move_iterator(events_.end()));
  events_.clear();
  return kept;
}

void TraceBook::note(std::string_view what, std::string whose, int64_t begin_ns, int64_t end_ns,
                     int64_t step) {
  if (!on()) return;
  static thread_local const auto thread = static_cast<uint64_t>(syscall(SYS_gettid));
  const std::lock_guard lock(mutex_);
  if (!on_) return;
  if (events_.size() == most_events_) events_.pop_front();
  events_.push_back({what, std::move(whose), begin_ns, end_ns - begin_ns, step, thread});
}

}  // namespace overlord::runtime
