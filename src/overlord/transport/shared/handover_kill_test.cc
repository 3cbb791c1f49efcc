// Readers of shared buffers are killed at random moments, hundreds of times: no lease, segment,
// descriptor or link of theirs stays behind, and a reader that lives sees no wrong byte.
#include <gtest/gtest.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>

#include "overlord/base/rng.h"
#include "overlord/runtime/steady_clock.h"
#include "overlord/testing/rounds.h"
#include "overlord/transport/shared/handover_test.h"
#include "overlord/transport/socket_directory.h"
#include "overlord/transport/temporary_base_test.h"
#include "overlord/transport/unix_listener.h"

namespace overlord::transport {
namespace {

// As many in the process that kills as in the one that counts.
int kills() { return static_cast<int>(rounds(250, 1000)); }
constexpr int kWrong = 3;  // exit status of a reader that saw a wrong byte
constexpr char kDirectory[] = "OVERLORD_TEST_KILL_READERS_OF";  // tells the killer where to read

int64_t in_a_minute() { return runtime::steady_now_ns() + 60'000'000'000; }

bool wait_for(const std::function<bool()>& done) {
  const int64_t deadline_ns = in_a_minute();
  while (!done()) {
    if (runtime::steady_now_ns() > deadline_ns) return false;
    poll(nullptr, 0, 1);
  }
  return true;
}

size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

ConnectRequest request(const std::string& directory) {
  return {directory, "node", in_a_minute(), true};
}

// Reads until it is killed. Tells `first` when it holds its first buffer.
[[noreturn]] void read_until_killed(const std::string& directory, int first) {
  auto thread = LoopThread::start();
  HandOverReader reader(2);
  auto link = UnixLink::connect((*thread)->loop(), request(directory), {}, reader.callbacks());
  if (!link.ok() || !(*link)->send("").ok()) _exit(1);
  bool told = false;
  while (reader.wrong == 0 && !reader.closed) {
    if (!told && reader.seen > 0) told = write(first, "x", 1) == 1;
    poll(nullptr, 0, told ? 100 : 0);
  }
  _exit(reader.wrong > 0 ? kWrong : 2);
}

// Starts readers and kills them; the number of readers that ended in any other way.
int kill_many(const std::string& directory) {
  const int most = kills();
  int otherwise = 0;
  for (int i = 0; i < most; ++i) {
    int first[2];
    if (pipe(first) != 0) return most;
    const pid_t reader = fork();
    if (reader == 0) read_until_killed(directory, first[1]);
    close(first[1]);
    char byte;
    // Every other one surely holds something; the rest die wherever they are.
    if (i % 2 == 0 && read(first[0], &byte, 1) != 1) ++otherwise;
    const auto delay_ns =
        static_cast<long>(uniform_below(7, static_cast<uint64_t>(i), 0, 2'000'000));
    const timespec delay = {0, delay_ns};
    ppoll(nullptr, 0, &delay, nullptr);
    kill(reader, SIGKILL);
    int status = 0;
    otherwise += waitpid(reader, &status, 0) != reader || !WIFSIGNALED(status);
    close(first[0]);
  }
  return otherwise;
}

// The killer forks, so it must be a process without threads, and this one may have some: it is this
// program once more, running nothing but this.
TEST(HandOver, DISABLED_TheKiller) {
  const char* const directory = std::getenv(kDirectory);
  ASSERT_NE(directory, nullptr) << "started by KilledReadersLeaveNothing";
  EXPECT_EQ(kill_many(directory), 0) << "readers that were not killed but ended";
}

pid_t start_killer(const std::string& directory) {
  std::string arguments[] = {"killer", "--gtest_filter=HandOver.DISABLED_TheKiller",
                             "--gtest_also_run_disabled_tests", "--gtest_brief=1"};
  char* argv[] = {arguments[0].data(), arguments[1].data(), arguments[2].data(),
                  arguments[3].data(), nullptr};
  setenv(kDirectory, directory.c_str(), 1);
  pid_t killer = -1;
  const int failed = posix_spawn(&killer, "/proc/self/exe", nullptr, nullptr, argv, environ);
  unsetenv(kDirectory);
  return failed == 0 ? killer : -1;
}

// Links are accepted in the order they came: when a new one is served, the dead ones before it are
// no longer on their way.
bool all_accepted(const std::shared_ptr<EventLoop>& loop, const std::string& directory) {
  HandOverReader last(1);
  auto link = UnixLink::connect(loop, request(directory), {}, last.callbacks());
  if (!link.ok() || !(*link)->send("").ok()) return false;
  const bool served = wait_for([&] { return last.seen > 0; });
  (*link)->close();
  return wait_for([&] { return last.closed.load(); }) && served;
}

TEST(HandOver, KilledReadersLeaveNothing) {
  const TemporaryBase base;
  const pid_t killer = start_killer(base.path("d"));
  ASSERT_GT(killer, 0);

  const size_t descriptors_before = open_descriptors();
  {
    auto pool = *SharedPool::make({"kill", 8 << 20, 8 << 20, true});
    HandOverOwner owner(pool, 4, 100'000);
    HandOverReader survivor(3);
    auto directory = *SocketDirectory::make(base.path("d"));
    auto lock = *directory.lock(in_a_minute());
    auto thread = *LoopThread::start();
    auto listener = *UnixListener::listen(thread->loop(), directory, &lock, {},
                                          [&](UnixLink& link) { return owner.accept(link); });
    auto link =
        *UnixLink::connect(thread->loop(), request(base.path("d")), {}, survivor.callbacks());
    ASSERT_TRUE(link->send("").ok());

    int status = -1;
    ASSERT_EQ(waitpid(killer, &status, 0), killer);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0) << "the killer says why";
    ASSERT_TRUE(all_accepted(thread->loop(), base.path("d")));
    ASSERT_TRUE(wait_for([&] { return listener->stats().open_links == 1; }));
    EXPECT_EQ(owner.book.stats().peers, 1u);
    EXPECT_GE(owner.deaths_with_leases, static_cast<size_t>(kills()) / 4);  // the kills did hit
    EXPECT_EQ(owner.refused, 0u);
    EXPECT_LE(owner.book.stats().leases, 4u);
    EXPECT_EQ(survivor.wrong, 0u);
    EXPECT_GT(survivor.seen, 100u);

    link->close();
    ASSERT_TRUE(wait_for([&] { return listener->stats().open_links == 0; }));
    EXPECT_EQ(owner.book.stats().leases, 0u);
    EXPECT_EQ(owner.book.stats().peers, 0u);
    EXPECT_EQ(pool->stats().held_bytes, 0u);
    EXPECT_EQ(pool->stats().made_count, 1u);  // the pool refilled from the dead, never grew
    EXPECT_EQ(pool->stats().largest_free_bytes, 8u << 20);
    listener->close();
    thread.reset();
    EXPECT_TRUE(directory.remove(std::move(lock)).ok());
  }
  EXPECT_LE(open_descriptors(), descriptors_before);  // less: of tests before this one
  EXPECT_FALSE(std::filesystem::exists(base.path("d")));
}

}  // namespace
}  // namespace overlord::transport
