// Handoff: one value after another from a role's loop to a thread that may wait for them.
// The only place where a caller's thread blocks. Any thread may close it; closing wakes everybody.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "overlord/base/guarded_by.h"

namespace overlord::runtime {

template <typename T>
class Handoff {
 public:
  void push(T value) {
    {
      const std::lock_guard lock(mutex_);
      if (closed_) return;
      values_.push_back(std::move(value));
    }
    ready_.notify_one();
  }

  // Nothing: the time is over, or it was closed.
  std::optional<T> pop(int64_t timeout_ms) {
    std::unique_lock lock(mutex_);
    is_held(mutex_);
    ready_.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                    [this]() OVERLORD_REQUIRES(mutex_) { return closed_ || !values_.empty(); });
    if (values_.empty()) return std::nullopt;
    T value = std::move(values_.front());
    values_.pop_front();
    return value;
  }

  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      values_.clear();
    }
    ready_.notify_all();
  }

  bool closed() const {
    const std::lock_guard lock(mutex_);
    return closed_;
  }

  size_t size() const {
    const std::lock_guard lock(mutex_);
    return values_.size();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<T> values_ OVERLORD_GUARDED_BY(mutex_);
  bool closed_ OVERLORD_GUARDED_BY(mutex_) = false;
};

}  // namespace overlord::runtime
