#include "overlord/runtime/thread_executor.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <system_error>
#include <thread>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/base/guarded_by.h"
#include "overlord/runtime/steady_clock.h"

namespace overlord::runtime {
namespace {

constexpr size_t kThreadNameBytes = 15;  // what the kernel keeps

void name_this_thread(const std::string& name, size_t index) {
  const std::string suffix = "-" + std::to_string(index);
  const size_t room = kThreadNameBytes - std::min(kThreadNameBytes, suffix.size());
  pthread_setname_np(pthread_self(), (name.substr(0, room) + suffix).c_str());
}

// Linux has a priority for each thread. Not SCHED_IDLE: a lock such a thread holds may stay held
// for seconds.
void take_spare_time_only() {
  constexpr int kLeast = 19;
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kLeast);
}

}  // namespace

Status no_thread(const std::string& who) {
  return {
      Code::kResource,
      "the system refuses to start a thread for " + who +
          "; raise the limit on processes and threads (`ulimit -u`, pids.max of the container)"};
}

struct ThreadExecutor::Worker {
  std::condition_variable wake;
  bool woken = false;  // taken off parked_ by somebody else
  std::thread thread;
};

bool ThreadExecutor::later(const Timer& a, const Timer& b) {
  return std::pair(a.when_ns, a.sequence) > std::pair(b.when_ns, b.sequence);
}

ThreadExecutor::ThreadExecutor(size_t threads, std::string name, CpuTime time) {
  start(std::max<size_t>(threads, 1), name, time);
}

ThreadExecutor::~ThreadExecutor() { shutdown(); }

void ThreadExecutor::start(size_t threads, const std::string& name, CpuTime time) {
  workers_.reserve(threads);
  for (size_t i = 0; i < threads; ++i) {
    auto worker = std::make_unique<Worker>();
    try {
      worker->thread = std::thread([this, self = worker.get(), name, i, time] {
        name_this_thread(name, i);
        if (time == CpuTime::kSpare) take_spare_time_only();
        work(*self);
      });
    } catch (const std::system_error&) {
      break;
    }
    workers_.push_back(std::move(worker));
  }
}

Status ThreadExecutor::status() const {
  return workers_.empty() ? no_thread("the CPU pool") : Status();
}

void ThreadExecutor::post(Task task) {
  Worker* waking = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) {
      ++dropped_;
      return;  // the task is destroyed after the lock is gone
    }
    ready_.push_back(std::move(task));
    waking = unpark_one();
  }
  if (waking != nullptr) waking->wake.notify_one();
}

void ThreadExecutor::post_after(int64_t delay_ns, Task task) {
  if (delay_ns <= 0) return post(std::move(task));
  const int64_t now_ns = steady_now_ns();
  const int64_t room_ns = std::numeric_limits<int64_t>::max() - now_ns;
  Worker* watching = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) {
      ++dropped_;
      return;
    }
    const uint64_t sequence = sequence_++;
    timers_.push_back({now_ns + std::min(delay_ns, room_ns), sequence, std::move(task)});
    std::push_heap(timers_.begin(), timers_.end(), later);
    // A new earliest time: whoever watches the timers must look again.
    const bool earliest = timers_.front().sequence == sequence;
    if (earliest && !parked_.empty()) watching = parked_.front();
  }
  if (watching != nullptr) watching->wake.notify_one();
}

void ThreadExecutor::shutdown() {
  std::deque<Task> dropped_ready;
  std::vector<Timer> dropped_timers;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    dropped_ready.swap(ready_);
    dropped_timers.swap(timers_);
    dropped_ += dropped_ready.size() + dropped_timers.size();
    for (Worker* worker : parked_) worker->wake.notify_one();
  }
  const std::lock_guard joining(join_mutex_);
  for (const auto& worker : workers_) {
    if (!worker->thread.joinable()) continue;
    OVERLORD_CHECK(worker->thread.get_id() != std::this_thread::get_id(),
                   "an executor is shut down by one of its own tasks");
    worker->thread.join();
  }
}

ExecutorStats ThreadExecutor::stats() const {
  const std::lock_guard lock(mutex_);
  return {ready_.size(), timers_.size(), executed_, dropped_, busy_ns_};
}

void ThreadExecutor::work(Worker& self) {
  std::unique_lock lock(mutex_);
  is_held(mutex_);
  int64_t now_ns = steady_now_ns();
  while (!stopping_) {
    promote_due(now_ns);
    if (ready_.empty()) {
      park(self, lock);
      now_ns = steady_now_ns();
      continue;
    }
    Task task = std::move(ready_.front());
    ready_.pop_front();
    lock.unlock();
    task();
    task = nullptr;  // what it holds goes outside the lock, and counts as its time
    const int64_t end_ns = steady_now_ns();
    lock.lock();
    ++executed_;
    busy_ns_ += static_cast<uint64_t>(end_ns - now_ns);
    now_ns = end_ns;
  }
}

// Waits until unpark_one() takes this worker, a timer is due (the first parked only), or the end.
void ThreadExecutor::park(Worker& self, std::unique_lock<std::mutex>& lock) {
  self.woken = false;
  parked_.push_back(&self);
  while (!self.woken && !stopping_) {
    if (parked_.front() != &self || timers_.empty()) {
      self.wake.wait(lock);
      continue;
    }
    const int64_t when_ns = timers_.front().when_ns;
    if (when_ns <= steady_now_ns()) break;
    const std::chrono::nanoseconds when(when_ns);
    self.wake.wait_until(lock, std::chrono::steady_clock::time_point(when));
  }
  if (self.woken) return;
  std::erase(parked_, &self);
  // The watch over the timers goes to the next one.
  if (!timers_.empty() && !parked_.empty()) parked_.front()->wake.notify_one();
}

void ThreadExecutor::promote_due(int64_t now_ns) {
  bool mine = ready_.empty();  // the first one needs no other thread: the caller will take it
  while (!timers_.empty() && timers_.front().when_ns <= now_ns) {
    std::pop_heap(timers_.begin(), timers_.end(), later);
    ready_.push_back(std::move(timers_.back().task));
    timers_.pop_back();
    Worker* waking = mine ? nullptr : unpark_one();
    mine = false;
    if (waking != nullptr) waking->wake.notify_one();
  }
}

ThreadExecutor::Worker* ThreadExecutor::unpark_one() {
  if (parked_.empty()) return nullptr;
  Worker* worker = parked_.back();
  parked_.pop_back();
  worker->woken = true;
  return worker;
}

}  // namespace overlord::runtime
