#include "overlord/sim/process_life.h"

#include <utility>

namespace overlord::sim {

void ProcessExecutor::post_after(int64_t delay_ns, runtime::Task task) {
  if (starved_ns_ > 0) delay_ns += world_.dice().delay_ns(starved_ns_);
  world_.post_after(delay_ns, [this, task = std::move(task)]() mutable {
    if (!stopped_) return task();
    waiting_.push_back(std::move(task));
  });
}

void ProcessExecutor::go_on() {
  stopped_ = false;
  for (runtime::Task& task : std::exchange(waiting_, {})) world_.post(std::move(task));
}

}  // namespace overlord::sim
