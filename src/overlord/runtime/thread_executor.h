// ThreadExecutor: the CPU pool of a real node, a few named threads over one FIFO queue and one heap
// of timers. Owned by the node, which outlives everything that posts to it.
// Tasks must neither block nor throw. It never runs a task on the caller's stack, never wakes a
// thread while all are busy, and drops (destroys, counted) what is still queued at shutdown().
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "overlord/base/fields.h"
#include "overlord/base/guarded_by.h"
#include "overlord/base/status.h"
#include "overlord/runtime/seams.h"

namespace overlord::runtime {

struct ExecutorStats {
  uint64_t queued = 0;    // ready, waiting for a thread
  uint64_t delayed = 0;   // waiting for their time
  uint64_t executed = 0;  // finished
  uint64_t dropped = 0;   // posted after shutdown, or never run because of it
  uint64_t busy_ns = 0;   // time inside finished tasks, all threads together

  OVERLORD_FIELDS(queued, delayed, executed, dropped, busy_ns)
};

// What is said when not even one thread can be had.
Status no_thread(const std::string& who);

enum class CpuTime { kShared, kSpare };  // kSpare: next to nothing while others want the cores

class ThreadExecutor final : public Executor {
 public:
  // Threads are called "<name>-0", "<name>-1"; fewer than asked for are made when the system
  // refuses more (threads() tells). With none nothing would ever run: look at status() first.
  explicit ThreadExecutor(size_t threads, std::string name = "ol-cpu",
                          CpuTime time = CpuTime::kShared);
  ~ThreadExecutor() override;
  ThreadExecutor(const ThreadExecutor&) = delete;
  ThreadExecutor& operator=(const ThreadExecutor&) = delete;

  void post(Task task) override;
  void post_after(int64_t delay_ns, Task task) override;

  // Stops accepting, drops what is queued, waits for the running tasks. Any thread but the pool's
  // own may call it, any number of times; after it nothing runs.
  void shutdown();

  size_t threads() const { return workers_.size(); }
  Status status() const;
  ExecutorStats stats() const;

 private:
  struct Worker;
  struct Timer {
    int64_t when_ns;
    uint64_t sequence;  // equal times keep their order
    Task task;
  };
  static bool later(const Timer& a, const Timer& b);

  void start(size_t threads, const std::string& name, CpuTime time);
  void work(Worker& self);
  void park(Worker& self, std::unique_lock<std::mutex>& lock) OVERLORD_REQUIRES(mutex_);
  void promote_due(int64_t now_ns) OVERLORD_REQUIRES(mutex_);
  Worker* unpark_one() OVERLORD_REQUIRES(mutex_);

  mutable std::mutex mutex_;
  std::deque<Task> ready_ OVERLORD_GUARDED_BY(mutex_);
  std::vector<Timer> timers_ OVERLORD_GUARDED_BY(mutex_);  // heap, earliest first
  std::vector<Worker*> parked_
      OVERLORD_GUARDED_BY(mutex_);  // last in, first out; the first one also watches the timers
  bool stopping_ OVERLORD_GUARDED_BY(mutex_) = false;
  uint64_t sequence_ OVERLORD_GUARDED_BY(mutex_) = 0;
  uint64_t executed_ OVERLORD_GUARDED_BY(mutex_) = 0;
  uint64_t dropped_ OVERLORD_GUARDED_BY(mutex_) = 0;
  uint64_t busy_ns_ OVERLORD_GUARDED_BY(mutex_) = 0;

  std::mutex join_mutex_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace overlord::runtime
