// SeatPool: what every pool of workers is made of: one queue of tasks, and a thread before each of
// several seats that serve them. Who was busy last is asked first, so that warm processes come
// before cold ones. What a task is, how often it is tried and what it answers is its owner's
// business; none is lost and none is served twice. push() never blocks and never serves.
#pragma once

#include <pthread.h>

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "overlord/base/check.h"
#include "overlord/base/guarded_by.h"
#include "overlord/base/status.h"

namespace overlord::workers {

template <typename Seat, typename Task>
class SeatPool {
 public:
  using Make = std::function<std::unique_ptr<Seat>()>;
  // On a thread of the pool, which may put another into its seat. None in it: the pool has ended.
  using Serve = std::function<void(std::unique_ptr<Seat>& seat, Task task)>;

  // `name` of its threads, before their number.
  SeatPool(std::string name, size_t seats, Make make, Serve serve)
      : name_(std::move(name)), seats_(seats), make_(std::move(make)), serve_(std::move(serve)) {}
  ~SeatPool() { end({}); }
  SeatPool(const SeatPool&) = delete;
  SeatPool& operator=(const SeatPool&) = delete;

  // Those threads that are missing; kResource when there are still some.
  Status start() {
    const std::lock_guard lock(mutex_);
    while (threads_.size() < seats_ && !ending_) {
      try {
        threads_.emplace_back([this, number = threads_.size()] { work(number); });
      } catch (const std::system_error& error) {
        return {Code::kResource, std::string("cannot start a thread: ") + error.what()};
      }
    }
    return {};
  }

  // `first`: before all that wait.
  void push(Task task, bool first = false) {
    const std::lock_guard lock(mutex_);
    queue_.insert(first ? queue_.begin() : queue_.end(), std::move(task));
    if (parked_.empty()) return;
    parked_.back()->woken = true;
    parked_.back()->wake.notify_one();
    parked_.pop_back();
  }

  // `stop`: whoever is busy gives up. Then everything left is served by nobody, on this thread.
  void end(const std::function<void()>& stop) {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
      for (Parked* parked : parked_) parked->wake.notify_one();
    }
    if (stop) stop();
    for (std::thread& thread : threads_) {
      OVERLORD_CHECK(thread.get_id() != std::this_thread::get_id(),
                     "a pool of workers is destroyed by one of its own callbacks");
      thread.join();
    }
    threads_.clear();
    std::deque<Task> left;
    {
      const std::lock_guard lock(mutex_);
      left.swap(queue_);
    }
    std::unique_ptr<Seat> nobody;
    for (Task& task : left) serve_(nobody, std::move(task));
  }

  bool ending() const {
    const std::lock_guard lock(mutex_);
    return ending_;
  }
  size_t started() const {
    const std::lock_guard lock(mutex_);
    return threads_.size();
  }
  size_t waiting() const {
    const std::lock_guard lock(mutex_);
    return queue_.size();
  }

 private:
  struct Parked {  // a thread that has nothing to do
    std::condition_variable wake;
    bool woken = false;
  };

  void work(size_t number) {
    constexpr size_t kNameBytes = 15;  // what the system keeps
    const std::string name = (name_ + std::to_string(number)).substr(0, kNameBytes);
    pthread_setname_np(pthread_self(), name.c_str());
    std::unique_ptr<Seat> seat = make_();
    Parked self;
    std::unique_lock lock(mutex_);
    is_held(mutex_);
    while (!ending_) {
      if (queue_.empty()) {
        self.woken = false;
        parked_.push_back(&self);
        self.wake.wait(lock, [&]() OVERLORD_REQUIRES(mutex_) { return self.woken || ending_; });
        if (!self.woken) std::erase(parked_, &self);
        continue;
      }
      Task task = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      serve_(seat, std::move(task));
      lock.lock();
    }
  }

  const std::string name_;
  const size_t seats_;
  const Make make_;
  const Serve serve_;
  mutable std::mutex mutex_;
  std::deque<Task> queue_ OVERLORD_GUARDED_BY(mutex_);
  std::vector<Parked*> parked_ OVERLORD_GUARDED_BY(mutex_);  // last in, first out
  bool ending_ OVERLORD_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace overlord::workers
