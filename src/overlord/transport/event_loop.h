// EventLoop: one thread that waits for many descriptors (epoll) and runs what they are waiting for.
// A Watcher is told when its descriptor is ready, always on the loop's thread; tasks posted from
// other threads run there too, in order, and one wake-up serves all that came meanwhile.
// Watchers and tasks must neither block nor throw. LoopThread owns the thread; links and listeners
// share the loop itself, which may outlive the thread: nothing runs on it then.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "overlord/base/guarded_by.h"
#include "overlord/base/status.h"
#include "overlord/runtime/descriptor.h"

namespace overlord::transport {

class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual void ready(uint32_t events) = 0;  // EPOLLIN and friends
  virtual void stopped() = 0;               // the loop ends; said once, nothing comes after it
};

// "cannot <what>: <the system's words>".
Status system_failure(const std::string& what, int error);

class EventLoop {
 public:
  using Task = std::function<void()>;
  using Token = uint64_t;  // one watch; never used again, so a late event finds nobody

  static Result<std::shared_ptr<EventLoop>> make();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Any thread. After the end of the loop tasks are dropped: false.
  bool post(Task task);
  bool on_loop_thread() const;
  // A process that was forked has a copy of the loop but not its thread: nothing can move there.
  bool in_forked_child() const;

  // The loop's thread only. The descriptor must stay open until unwatch().
  Result<Token> watch(int descriptor, uint32_t events, std::shared_ptr<Watcher> watcher);
  void change(Token token, uint32_t events);
  void unwatch(Token token);
  // Memory for one read at a time; its contents last until the next one.
  std::span<char> scratch() { return {scratch_.data(), scratch_.size()}; }

 private:
  friend class LoopThread;
  struct Watch {
    int descriptor;
    std::shared_ptr<Watcher> watcher;
  };
  EventLoop(runtime::Descriptor epoll, runtime::Descriptor wake);
  void run();
  void stop();
  void wake();
  bool run_tasks();
  void finish();

  const runtime::Descriptor epoll_;
  const runtime::Descriptor wake_;
  const pid_t pid_;
  std::atomic<std::thread::id> thread_;

  mutable std::mutex mutex_;
  std::vector<Task> tasks_ OVERLORD_GUARDED_BY(mutex_);
  bool awake_ OVERLORD_GUARDED_BY(mutex_) = false;  // it will look at tasks_ before it waits again
  bool stopping_ OVERLORD_GUARDED_BY(mutex_) = false;
  bool finished_ OVERLORD_GUARDED_BY(mutex_) = false;

  std::map<Token, Watch> watches_;  // the loop's thread only
  Token last_token_ = 0;
  std::vector<char> scratch_;
};

// The thread of a loop. Its destructor ends the loop: every watcher is told, then the thread is
// joined. Must not be destroyed on that thread.
class LoopThread {
 public:
  static Result<std::unique_ptr<LoopThread>> start(const std::string& thread_name = "ol-links");
  ~LoopThread();
  LoopThread(const LoopThread&) = delete;
  LoopThread& operator=(const LoopThread&) = delete;

  const std::shared_ptr<EventLoop>& loop() const { return loop_; }

 private:
  explicit LoopThread(std::shared_ptr<EventLoop> loop) : loop_(std::move(loop)) {}

  const std::shared_ptr<EventLoop> loop_;
  std::thread thread_;
};

}  // namespace overlord::transport
