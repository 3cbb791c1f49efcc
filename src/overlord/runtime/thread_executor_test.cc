#include "overlord/runtime/thread_executor.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "overlord/runtime/steady_clock.h"

namespace overlord::runtime {
namespace {

using std::chrono::seconds;
constexpr int64_t kMillisecond = 1'000'000;
constexpr int64_t kHour = 3600LL * 1000 * kMillisecond;

// Counts down to zero; wait() is false when that takes longer than two minutes.
class Latch {
 public:
  explicit Latch(int count) : count_(count) {}
  void down() {
    const std::lock_guard lock(mutex_);
    if (--count_ <= 0) zero_.notify_all();
  }
  bool wait() {
    std::unique_lock lock(mutex_);
    return zero_.wait_for(lock, seconds(120), [this] { return count_ <= 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable zero_;
  int count_;
};

TEST(SteadyClock, NeverGoesBack) {
  SteadyClock clock;
  const int64_t first = clock.now_ns();
  EXPECT_GT(first, 0);
  EXPECT_GE(clock.now_ns(), first);
}

TEST(ThreadExecutor, OneThreadKeepsTheOrder) {
  ThreadExecutor executor(1);
  std::vector<int> seen;
  Latch done(1000);
  for (int i = 0; i < 1000; ++i) {
    executor.post([&, i] {
      seen.push_back(i);
      done.down();
    });
  }
  ASSERT_TRUE(done.wait());
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(seen[i], i);
  executor.shutdown();
  EXPECT_EQ(executor.stats().executed, 1000u);
  EXPECT_EQ(executor.stats().queued, 0u);
  EXPECT_GT(executor.stats().busy_ns, 0u);
}

TEST(ThreadExecutor, ThreadsCarryTheirNames) {
  ThreadExecutor executor(2, "a-rather-long-name");
  std::mutex mutex;
  std::set<std::string> names;
  Latch both(2);
  for (int i = 0; i < 2; ++i) {
    executor.post([&] {
      char name[16] = {};
      pthread_getname_np(pthread_self(), name, sizeof(name));
      {
        const std::lock_guard lock(mutex);
        names.insert(name);
      }
      both.down();
      both.wait();  // holds this thread until the other one has come
    });
  }
  ASSERT_TRUE(both.wait());
  executor.shutdown();
  EXPECT_EQ(names, (std::set<std::string>{"a-rather-long-0", "a-rather-long-1"}));
}

TEST(ThreadExecutor, AllThreadsWorkAtOnce) {
  ThreadExecutor executor(4);
  for (int round = 0; round < 50; ++round) {
    auto all = std::make_shared<Latch>(4);
    Latch left(4);
    for (int i = 0; i < 4; ++i) {
      executor.post([all, &left] {
        all->down();
        EXPECT_TRUE(all->wait());  // only passes when four tasks run side by side
        left.down();
      });
    }
    ASSERT_TRUE(left.wait());
  }
}

TEST(ThreadExecutor, ManyPostersLoseNothing) {
  ThreadExecutor executor(3);
  constexpr int kPosters = 4, kEach = 5000;
  std::atomic<int> ran{0};
  Latch done(kPosters * kEach);
  std::vector<std::thread> posters;
  for (int p = 0; p < kPosters; ++p) {
    posters.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) {
        executor.post([&] {
          ran.fetch_add(1);
          done.down();
        });
      }
    });
  }
  for (auto& poster : posters) poster.join();
  EXPECT_TRUE(done.wait());
  EXPECT_EQ(ran.load(), kPosters * kEach);
}

TEST(ThreadExecutor, TimersRunInOrderAndNotEarly) {
  ThreadExecutor executor(1);
  std::vector<int> seen;
  Latch done(4);
  const int64_t begin = steady_now_ns();
  std::atomic<int64_t> last_ran{0};
  const auto note = [&](int name) {
    return [&, name] {
      seen.push_back(name);
      last_ran = steady_now_ns();
      done.down();
    };
  };
  // Posted from a task, so that all are in the heap before the only thread looks at it again. Far
  // apart, so that a busy machine does not turn their order round between two calls.
  executor.post([&] {
    executor.post_after(600 * kMillisecond, note(3));
    executor.post_after(300 * kMillisecond, note(1));
    executor.post_after(400 * kMillisecond, note(2));
    executor.post_after(-1, note(0));
  });
  ASSERT_TRUE(done.wait());
  EXPECT_EQ(seen, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_GE(last_ran.load() - begin, 600 * kMillisecond);
}

TEST(ThreadExecutor, TheEarlierTimerOvertakesASleepingWatch) {
  ThreadExecutor executor(2);
  Latch done(1);
  executor.post_after(kHour, [] { FAIL() << "an hour has not passed"; });
  executor.post_after(std::numeric_limits<int64_t>::max(), [] { FAIL() << "nor has forever"; });
  executor.post_after(2 * kMillisecond, [&] { done.down(); });
  EXPECT_TRUE(done.wait());
  EXPECT_EQ(executor.stats().delayed, 2u);
}

TEST(ThreadExecutor, TimersFireWhileOtherThreadsAreHeld) {
  ThreadExecutor executor(3);
  for (int round = 0; round < 20; ++round) {
    Latch fired(3), held(2), left(2);
    for (int i = 0; i < 3; ++i) executor.post_after(kMillisecond, [&] { fired.down(); });
    for (int i = 0; i < 2; ++i) {
      executor.post([&] {
        held.down();
        EXPECT_TRUE(fired.wait());  // the third thread must serve the timers alone
        left.down();
      });
    }
    ASSERT_TRUE(held.wait());
    ASSERT_TRUE(left.wait());
  }
}

TEST(ThreadExecutor, ATimerThatHoldsItsThreadDoesNotHoldTheNext) {
  ThreadExecutor executor(2);
  for (int round = 0; round < 10; ++round) {
    Latch second(1), left(1);
    executor.post_after(kMillisecond, [&] {
      EXPECT_TRUE(second.wait());  // the watch must have gone to the other thread
      left.down();
    });
    executor.post_after(5 * kMillisecond, [&] { second.down(); });
    ASSERT_TRUE(left.wait());
  }
}

TEST(ThreadExecutor, TimersDueTogetherRunTogether) {
  ThreadExecutor executor(3);
  for (int round = 0; round < 10; ++round) {
    Latch both(2), left(2);
    for (int i = 0; i < 2; ++i) {
      executor.post_after(kMillisecond, [&] {
        both.down();
        EXPECT_TRUE(both.wait());
        left.down();
      });
    }
    ASSERT_TRUE(left.wait());
  }
}

TEST(ThreadExecutor, ShutdownDropsWhatIsQueuedAndIsQuick) {
  auto token = std::make_shared<int>(7);
  ThreadExecutor executor(1);
  Latch running(1), release(1);
  executor.post([&] {
    running.down();
    release.wait();
  });
  ASSERT_TRUE(running.wait());
  for (int i = 0; i < 10; ++i) executor.post([token] { FAIL() << *token; });
  executor.post_after(kHour, [token] { FAIL() << *token; });
  EXPECT_EQ(executor.stats().queued, 10u);
  EXPECT_EQ(executor.stats().delayed, 1u);

  std::thread stopper([&] { executor.shutdown(); });
  while (executor.stats().dropped != 11) std::this_thread::yield();  // accepted no more from here
  executor.post([token] { FAIL(); });
  release.down();
  stopper.join();
  executor.shutdown();  // again: nothing happens
  EXPECT_EQ(token.use_count(), 1);
  EXPECT_EQ(executor.stats().executed, 1u);
  EXPECT_EQ(executor.stats().dropped, 12u);
}

TEST(ThreadExecutor, IdleShutdownDoesNotWaitForTimers) {
  ThreadExecutor executor(4);
  executor.post_after(kHour, [] { FAIL(); });
  executor.shutdown();
  EXPECT_EQ(executor.stats().dropped, 1u);
}

TEST(ThreadExecutor, ADroppedTaskMayPostAgain) {
  ThreadExecutor executor(1);
  struct Poster {
    Executor* executor;
    ~Poster() {
      executor->post([] { FAIL(); });
    }
  };
  executor.post_after(kHour, [held = std::make_shared<Poster>(&executor)] {});
  executor.shutdown();
  EXPECT_EQ(executor.stats().dropped, 2u);
}

TEST(ThreadExecutor, SpareTimeIsOfTheLeastPriority) {
  ThreadExecutor executor(1, "ol-spare", CpuTime::kSpare);
  Latch done(1);
  int priority = 0;
  executor.post([&] {
    priority = getpriority(PRIO_PROCESS, static_cast<id_t>(gettid()));
    done.down();
  });
  ASSERT_TRUE(done.wait());
  EXPECT_EQ(priority, 19);
  EXPECT_LT(getpriority(PRIO_PROCESS, 0), 19) << "of this thread, as before";
}

}  // namespace
}  // namespace overlord::runtime
