// RoleLoop: the mailbox of one role on an Executor. Messages are handled one at a time, in the
// order they were posted, on whatever thread the executor lends, and never two at once. Owned by
// the role's service; the executor outlives it. Tasks left in the executor hold it weakly, so they
// are harmless after it is gone. It never blocks post(), never runs the handler on the poster's
// stack, and never keeps the thread for more than kBatch messages.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "overlord/base/guarded_by.h"
#include "overlord/runtime/seams.h"

namespace overlord::runtime {

template <typename Message>
class RoleLoop {
 public:
  using Handler = std::function<void(Message&&)>;
  static constexpr size_t kBatch = 64;
  static constexpr size_t kDefaultCapacity = size_t{1} << 16;

  RoleLoop(Executor& executor, Handler handler, size_t capacity = kDefaultCapacity)
      : core_(std::make_shared<Core>(executor, std::move(handler), capacity)) {}
  ~RoleLoop() { stop(); }
  RoleLoop(const RoleLoop&) = delete;
  RoleLoop& operator=(const RoleLoop&) = delete;

  // False when the message was dropped: the loop was stopped, or `capacity` messages wait already,
  // which means that somebody sends without credit (counted in refused()). Any thread may call it,
  // the handler included.
  bool post(Message message) { return Core::post(core_, std::move(message)); }

  // Drops what waits and what comes later. On return no handler runs and its captures are gone;
  // when the handler itself calls it, that holds once the handler has returned. Two loops must not
  // stop each other from their handlers.
  void stop() { core_->stop(); }

  size_t depth() const { return core_->depth.load(std::memory_order_relaxed); }
  size_t max_depth() const { return core_->read(&Core::max_depth); }
  uint64_t refused() const { return core_->read(&Core::refused); }
  size_t capacity() const { return core_->capacity; }

 private:
  struct Core {
    Core(Executor& executor, Handler handler, size_t capacity)
        : executor(executor), capacity(capacity), handler(std::move(handler)) {}

    static bool post(const std::shared_ptr<Core>& core, Message message);
    static void schedule(const std::shared_ptr<Core>& core);
    static void run(const std::shared_ptr<Core>& core);
    bool begin();
    bool end();
    void stop();
    template <typename T>
    T read(T Core::* member) {
      const std::lock_guard lock(mutex);
      return this->*member;
    }

    Executor& executor;
    const size_t capacity;
    std::mutex mutex;
    std::condition_variable idle;  // runner became nobody
    std::deque<Message> inbox OVERLORD_GUARDED_BY(mutex);
    bool scheduled OVERLORD_GUARDED_BY(mutex) =
        false;  // a task of ours is in the executor or running
    std::thread::id runner
        OVERLORD_GUARDED_BY(mutex);  // the thread inside run(); nobody when default
    size_t max_depth OVERLORD_GUARDED_BY(mutex) = 0;
    uint64_t refused OVERLORD_GUARDED_BY(mutex) = 0;
    std::atomic<bool> stopped{false};  // written under the mutex
    std::atomic<size_t> depth{0};      // posted and not yet given to the handler

    // Touched by the runner alone, and by stop() once there is none.
    Handler handler;
    std::vector<Message> batch;
  };

  std::shared_ptr<Core> core_;
};

template <typename Message>
bool RoleLoop<Message>::Core::post(const std::shared_ptr<Core>& core, Message message) {
  {
    const std::lock_guard lock(core->mutex);
    if (core->stopped.load(std::memory_order_relaxed)) return false;
    const size_t depth = core->depth.load(std::memory_order_relaxed);
    if (depth >= core->capacity) {
      ++core->refused;
      return false;
    }
    core->inbox.push_back(std::move(message));
    core->depth.fetch_add(1, std::memory_order_relaxed);
    core->max_depth = std::max(core->max_depth, depth + 1);
    if (core->scheduled) return true;
    core->scheduled = true;
  }
  schedule(core);
  return true;
}

template <typename Message>
void RoleLoop<Message>::Core::schedule(const std::shared_ptr<Core>& core) {
  core->executor.post([weak = std::weak_ptr<Core>(core)] {
    if (const std::shared_ptr<Core> alive = weak.lock()) run(alive);
  });
}

template <typename Message>
void RoleLoop<Message>::Core::run(const std::shared_ptr<Core>& core) {
  if (!core->begin()) return;
  for (Message& message : core->batch) {
    if (core->stopped.load(std::memory_order_relaxed)) break;
    core->depth.fetch_sub(1, std::memory_order_relaxed);
    Message current = std::move(message);  // gone with its handling, not with the batch
    core->handler(std::move(current));
  }
  core->batch.clear();
  // Before end(), so that a waiting stop() does not return while the captures still live.
  if (core->stopped.load(std::memory_order_relaxed)) core->handler = nullptr;
  if (core->end()) schedule(core);
}

// Takes up to kBatch messages for this thread; false when there is nothing to do.
template <typename Message>
bool RoleLoop<Message>::Core::begin() {
  const std::lock_guard lock(mutex);
  if (stopped.load(std::memory_order_relaxed)) return false;
  const size_t count = std::min(inbox.size(), kBatch);
  const auto last = inbox.begin() + static_cast<std::ptrdiff_t>(count);
  std::move(inbox.begin(), last, std::back_inserter(batch));
  inbox.erase(inbox.begin(), last);
  runner = std::this_thread::get_id();
  return true;
}

// Nobody runs any more; true when there is more to do and a task must be posted for it.
template <typename Message>
bool RoleLoop<Message>::Core::end() {
  const std::lock_guard lock(mutex);
  scheduled = !inbox.empty();  // a stopped loop has an empty one
  if (stopped.load(std::memory_order_relaxed)) depth.store(0, std::memory_order_relaxed);
  runner = std::thread::id();
  idle.notify_all();
  return scheduled;
}

template <typename Message>
void RoleLoop<Message>::Core::stop() {
  std::deque<Message> dropped;  // these two are destroyed after the lock is gone
  Handler finished;
  std::unique_lock lock(mutex);
  is_held(mutex);
  stopped.store(true, std::memory_order_relaxed);
  dropped.swap(inbox);
  if (runner == std::this_thread::get_id()) return;
  idle.wait(lock, [this]() OVERLORD_REQUIRES(mutex) { return runner == std::thread::id(); });
  depth.store(0, std::memory_order_relaxed);
  finished = std::move(handler);
}

}  // namespace overlord::runtime
