#include "overlord/transport/socket_directory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "overlord/runtime/steady_clock.h"
#include "overlord/transport/temporary_base_test.h"

namespace overlord::transport {
namespace {

namespace fs = std::filesystem;

int64_t soon() { return runtime::steady_now_ns() + 20'000'000'000; }

TEST(SocketDirectory, IsMadeForOneUserAndFoundAgain) {
  const TemporaryBase base;
  const Digest job = digest_of("job");
  const auto first = SocketDirectory::for_job(job, base.path());
  ASSERT_TRUE(first.ok()) << first.status().message();
  struct stat info = {};
  ASSERT_EQ(stat(first->path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0700u);
  EXPECT_EQ(SocketDirectory::for_job(job, base.path())->path(), first->path());
  EXPECT_NE(SocketDirectory::for_job(digest_of("other"), base.path())->path(), first->path());
  EXPECT_TRUE(SocketDirectory::find(first->path()).ok());
  EXPECT_EQ(SocketDirectory::find(base.path("none")).status().code(), Code::kNotFound);
}

TEST(SocketDirectory, RefusesWhatOthersCouldReach) {
  const TemporaryBase base;
  const auto refused = [](const std::string& path) {
    const auto made = SocketDirectory::make(path);
    return !made.ok() && made.status().code() == Code::kInvalidArgument &&
           SocketDirectory::find(path).status().code() == Code::kInvalidArgument;
  };
  for (const mode_t mode : {0755, 0770, 0701, 0500}) {
    const std::string path = base.path("mode-" + std::to_string(mode));
    ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    EXPECT_TRUE(refused(path)) << mode;
    ASSERT_EQ(chmod(path.c_str(), 0700), 0);
  }
  ASSERT_EQ(mkdir(base.path("real").c_str(), 0700), 0);
  fs::create_directory_symlink(base.path("real"), base.path("link"));
  EXPECT_TRUE(refused(base.path("link")));
  std::ofstream(base.path("file")) << "x";
  EXPECT_TRUE(refused(base.path("file")));
  if (geteuid() == 0) {
    ASSERT_EQ(mkdir(base.path("foreign").c_str(), 0700), 0);
    ASSERT_EQ(chown(base.path("foreign").c_str(), 65534, 65534), 0);
    EXPECT_TRUE(refused(base.path("foreign")));
  }
  EXPECT_FALSE(SocketDirectory::make(base.path("no/parent")).ok());
}

TEST(SocketDirectory, OneHolderAtATime) {
  const TemporaryBase base;
  auto one = SocketDirectory::make(base.path("d"));
  auto two = SocketDirectory::make(base.path("d"));
  ASSERT_TRUE(one.ok() && two.ok());
  auto held = one->try_lock();
  ASSERT_TRUE(held.ok() && *held);
  auto second = two->try_lock();
  ASSERT_TRUE(second.ok());
  EXPECT_FALSE(*second);
  EXPECT_EQ(two->holder_pid(), getpid());
  EXPECT_EQ(two->lock(runtime::steady_now_ns()).status().code(), Code::kDeadline);
  held->reset();
  EXPECT_TRUE(two->lock(soon()).ok());
}

TEST(SocketDirectory, ADeadHolderLeavesTheLockAndItsFilesAreRemoved) {
  const TemporaryBase base;
  const pid_t child = fork();
  if (child == 0) {
    auto directory = SocketDirectory::make(base.path("d"));
    auto held = directory->try_lock();
    std::ofstream(base.path("d/node")) << "left";
    std::ofstream(base.path("d/log")) << "left";
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  auto directory = SocketDirectory::make(base.path("d"));
  auto held = directory->lock(soon());
  ASSERT_TRUE(held.ok()) << held.status().message();
  EXPECT_EQ(*directory->clear(*held), 2u);
  EXPECT_TRUE(directory->remove(std::move(*held)).ok());
  EXPECT_FALSE(fs::exists(base.path("d")));
}

TEST(SocketDirectory, ARemovedDirectoryIsMadeAgainByWhoeverLocksIt) {
  const TemporaryBase base;
  auto one = SocketDirectory::make(base.path("d"));
  auto two = SocketDirectory::make(base.path("d"));
  auto seeker = SocketDirectory::find(base.path("d"));
  ASSERT_TRUE(one->remove(std::move(*one->lock(soon()))).ok());
  EXPECT_EQ(seeker->try_lock().status().code(), Code::kNotFound);
  auto held = two->lock(soon());
  ASSERT_TRUE(held.ok()) << held.status().message();
  EXPECT_TRUE(fs::exists(base.path("d/lock")));
  auto late = one->try_lock();  // its descriptor is of the directory that is gone
  ASSERT_TRUE(late.ok());
  EXPECT_FALSE(*late);
}

// Many come and go at once: the lock is never held twice, though directory and lock file are made
// and removed all the time, or only the file, as when a removal meets a newcomer half-way.
TEST(SocketDirectory, HoldsUnderComingAndGoing) {
  const TemporaryBase base;
  constexpr int kThreads = 4, kTurns = 100;
  std::atomic<int> inside{0}, turns{0}, twice{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      auto directory = SocketDirectory::make(base.path("d"));
      ASSERT_TRUE(directory.ok()) << directory.status().message();
      for (int i = 0; i < kTurns;) {
        auto held = directory->try_lock();
        ASSERT_TRUE(held.ok()) << held.status().message();
        if (!*held) continue;
        twice += ++inside != 1;
        ++turns;
        ++i;
        std::this_thread::yield();
        --inside;
        if ((i + t) % 4 == 0) {
          EXPECT_TRUE(directory->remove(std::move(**held)).ok());
        } else if ((i + t) % 4 < 3) {
          unlink(base.path("d/lock").c_str());
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(turns, kThreads * kTurns);
  EXPECT_EQ(twice, 0);
}

}  // namespace
}  // namespace overlord::transport
