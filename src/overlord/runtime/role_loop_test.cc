#include "overlord/runtime/role_loop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "overlord/runtime/thread_executor.h"

namespace overlord::runtime {
namespace {

// One thread, no concurrency: what the simulator looks like to a loop.
class SteppedExecutor : public Executor {
 public:
  void post(Task task) override { tasks_.push_back(std::move(task)); }
  void post_after(int64_t, Task task) override { post(std::move(task)); }
  bool run_one() {
    if (tasks_.empty()) return false;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    task();
    return true;
  }
  size_t waiting() const { return tasks_.size(); }

 private:
  std::deque<Task> tasks_;
};

class Signal {
 public:
  void set() {
    const std::lock_guard lock(mutex_);
    is_set_ = true;
    changed_.notify_all();
  }
  bool wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(120), [this] { return is_set_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_set_ = false;
};

TEST(RoleLoop, HandlesInOrderInFairBatches) {
  SteppedExecutor executor;
  std::vector<int> seen;
  RoleLoop<int> loop(executor, [&](int message) { seen.push_back(message); });
  for (int i = 0; i < 150; ++i) EXPECT_TRUE(loop.post(i));
  EXPECT_EQ(executor.waiting(), 1u);  // one task, however many messages
  EXPECT_EQ(loop.depth(), 150u);
  EXPECT_TRUE(executor.run_one());
  EXPECT_EQ(seen.size(), RoleLoop<int>::kBatch);
  EXPECT_EQ(loop.depth(), 150u - RoleLoop<int>::kBatch);
  while (executor.run_one()) {
  }
  ASSERT_EQ(seen.size(), 150u);
  for (int i = 0; i < 150; ++i) EXPECT_EQ(seen[i], i);
  EXPECT_EQ(loop.depth(), 0u);
  EXPECT_EQ(loop.max_depth(), 150u);
}

TEST(RoleLoop, TheHandlerMayPostAndMessagesMayBeMoveOnly) {
  SteppedExecutor executor;
  std::vector<int> seen;
  RoleLoop<std::unique_ptr<int>>* self = nullptr;
  RoleLoop<std::unique_ptr<int>> loop(executor, [&](std::unique_ptr<int> message) {
    seen.push_back(*message);
    if (*message < 3) self->post(std::make_unique<int>(*message + 1));
  });
  self = &loop;
  loop.post(std::make_unique<int>(0));
  while (executor.run_one()) {
  }
  EXPECT_EQ(seen, (std::vector<int>{0, 1, 2, 3}));
}

TEST(RoleLoop, AMessageIsGoneAfterItsHandling) {
  SteppedExecutor executor;
  std::vector<long> alive;
  auto token = std::make_shared<int>(0);
  RoleLoop<std::shared_ptr<int>> loop(
      executor, [&](const std::shared_ptr<int>&) { alive.push_back(token.use_count()); });
  for (int i = 0; i < 3; ++i) loop.post(token);
  while (executor.run_one()) {
  }
  EXPECT_EQ(alive, (std::vector<long>{4, 3, 2}));
}

TEST(RoleLoop, RefusesBeyondItsCapacity) {
  SteppedExecutor executor;
  int handled = 0;
  RoleLoop<int> loop(executor, [&](int) { ++handled; }, 2);
  EXPECT_TRUE(loop.post(1));
  EXPECT_TRUE(loop.post(2));
  EXPECT_FALSE(loop.post(3));
  EXPECT_EQ(loop.refused(), 1u);
  while (executor.run_one()) {
  }
  EXPECT_TRUE(loop.post(4));
  while (executor.run_one()) {
  }
  EXPECT_EQ(handled, 3);
  EXPECT_EQ(loop.max_depth(), 2u);
  EXPECT_EQ(loop.capacity(), 2u);
}

TEST(RoleLoop, StopDropsMessagesAndDoesNotWaitForTheExecutor) {
  SteppedExecutor executor;
  auto token = std::make_shared<int>(0);
  RoleLoop<std::shared_ptr<int>> loop(executor, [](std::shared_ptr<int>) { FAIL(); });
  loop.post(token);
  loop.post(token);
  loop.stop();
  EXPECT_EQ(token.use_count(), 1);
  EXPECT_EQ(loop.depth(), 0u);
  EXPECT_FALSE(loop.post(token));
  while (executor.run_one()) {
  }
  loop.stop();
}

TEST(RoleLoop, TasksLeftBehindAreHarmless) {
  SteppedExecutor executor;
  auto token = std::make_shared<int>(0);
  {
    RoleLoop<int> loop(executor, [token](int) { FAIL(); });
    loop.post(1);
  }
  EXPECT_EQ(token.use_count(), 1);
  EXPECT_TRUE(executor.run_one());
  EXPECT_FALSE(executor.run_one());
}

TEST(RoleLoop, TheHandlerMayStopItsOwnLoop) {
  SteppedExecutor executor;
  auto token = std::make_shared<int>(0);
  int handled = 0;
  RoleLoop<std::shared_ptr<int>>* self = nullptr;
  RoleLoop<std::shared_ptr<int>> loop(executor, [&](std::shared_ptr<int>) {
    ++handled;
    self->stop();
  });
  self = &loop;
  for (int i = 0; i < 100; ++i) loop.post(token);
  while (executor.run_one()) {
  }
  EXPECT_EQ(handled, 1);
  EXPECT_EQ(token.use_count(), 1);
  EXPECT_EQ(loop.depth(), 0u);
}

TEST(RoleLoop, TheHandlerMayDestroyItsOwnLoop) {
  SteppedExecutor executor;
  std::unique_ptr<RoleLoop<int>> loop;
  int handled = 0;
  loop = std::make_unique<RoleLoop<int>>(executor, [&](int) {
    ++handled;
    loop.reset();
  });
  loop->post(1);
  loop->post(2);
  while (executor.run_one()) {
  }
  EXPECT_EQ(handled, 1);
}

TEST(RoleLoop, ALoopHeldByItsOwnHandlerEnds) {
  SteppedExecutor executor;
  auto loop = std::shared_ptr<RoleLoop<int>>();
  auto token = std::make_shared<int>(0);
  auto holder = std::make_shared<std::shared_ptr<RoleLoop<int>>>();
  loop = std::make_shared<RoleLoop<int>>(executor, [holder, token](int) { (*holder)->stop(); });
  *holder = loop;
  holder.reset();
  loop->post(1);
  loop.reset();  // now only the handler's captures hold it
  while (executor.run_one()) {
  }
  EXPECT_EQ(token.use_count(), 1);
}

TEST(RoleLoop, NeverConcurrentAndInOrderPerPoster) {
  struct Message {
    int poster;
    int number;
  };
  constexpr int kPosters = 3, kEach = 20000;
  ThreadExecutor executor(4);
  std::atomic<int> inside{0};
  std::vector<int> next(kPosters, 0);  // plain on purpose: the thread sanitizer watches it
  int total = 0;
  Signal all;
  RoleLoop<Message> loop(
      executor,
      [&](Message message) {
        EXPECT_EQ(inside.fetch_add(1), 0);
        EXPECT_EQ(message.number, next[message.poster]++);
        inside.fetch_sub(1);
        if (++total == kPosters * kEach) all.set();
      },
      kPosters * kEach);
  std::vector<std::thread> posters;
  for (int p = 0; p < kPosters; ++p) {
    posters.emplace_back([&, p] {
      for (int i = 0; i < kEach; ++i) ASSERT_TRUE(loop.post({p, i}));
    });
  }
  for (auto& poster : posters) poster.join();
  EXPECT_TRUE(all.wait());
  loop.stop();
  EXPECT_EQ(loop.refused(), 0u);
}

TEST(RoleLoop, StopWaitsForTheRunningHandler) {
  ThreadExecutor executor(2);
  Signal entered, release;
  std::atomic<bool> left{false};
  auto token = std::make_shared<int>(0);
  auto loop = std::make_unique<RoleLoop<int>>(executor, [&, token](int) {
    entered.set();
    release.wait();
    left = true;
  });
  loop->post(1);
  loop->post(2);
  ASSERT_TRUE(entered.wait());
  std::thread releaser([&] {
    while (loop->post(3)) std::this_thread::yield();  // until stop() has begun
    EXPECT_FALSE(left.load());
    release.set();
  });
  loop->stop();
  EXPECT_TRUE(left.load());
  EXPECT_EQ(token.use_count(), 1);
  releaser.join();
}

TEST(RoleLoop, ComesAndGoesUnderTraffic) {
  ThreadExecutor executor(3);
  auto token = std::make_shared<int>(0);
  for (int round = 0; round < 100; ++round) {
    auto value = std::make_unique<int>(0);  // dies with the round: a late handler would touch it
    RoleLoop<std::shared_ptr<int>> loop(executor,
                                        [&, held = token](std::shared_ptr<int>) { ++*value; });
    std::thread poster([&] {
      while (loop.post(token)) {
      }
    });
    while (loop.max_depth() < 3) std::this_thread::yield();
    loop.stop();
    poster.join();
    ASSERT_EQ(token.use_count(), 1);
  }
}

TEST(RoleLoop, AnExecutorThatWasShutDownDoesNotHoldStopUp) {
  ThreadExecutor executor(1);
  RoleLoop<int> loop(executor, [](int) {});
  executor.shutdown();
  loop.post(1);
  loop.stop();
  EXPECT_EQ(loop.depth(), 0u);
}

}  // namespace
}  // namespace overlord::runtime
