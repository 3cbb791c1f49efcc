// Callers: who is inside a call that waits without the interpreter's lock. Python ends a thread
// that wants its lock back when the interpreter is gone, in the middle of our frames, and with it
// the process: so whoever closes an engine lets them come back first.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "overlord/base/guarded_by.h"

namespace overlord::node {

class Callers {
 public:
  // False: there is nothing to wait for any more. Then the lock must not be let go, for the one who
  // closed waits for nobody who comes later.
  bool enter() {
    const std::lock_guard lock(mutex_);
    if (!closed_) ++inside_;
    return !closed_;
  }
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  void leave() {
    const std::lock_guard lock(mutex_);
    --inside_;
    left_.notify_all();
  }
  // False: somebody is still there.
  bool wait_until_none(int64_t timeout_ms) {
    std::unique_lock lock(mutex_);
    is_held(mutex_);
    return left_.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                          [this]() OVERLORD_REQUIRES(mutex_) { return inside_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable left_;
  uint32_t inside_ OVERLORD_GUARDED_BY(mutex_) = 0;
  bool closed_ OVERLORD_GUARDED_BY(mutex_) = false;
};

}  // namespace overlord::node
