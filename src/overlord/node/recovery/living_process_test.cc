#include "overlord/node/recovery/living_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <functional>

namespace overlord::node {
namespace {

bool becomes_so(const std::function<bool()>& condition) {
  const time_t deadline = time(nullptr) + 60;
  while (!condition()) {
    if (time(nullptr) > deadline) return false;
  }
  return true;
}

TEST(LivingProcesses, WhoWouldRunIsToldFromWhoSleepsOrWasStopped) {
  const pid_t busy = fork();
  if (busy == 0) {
    for (;;) {
    }
  }
  const pid_t asleep = fork();
  if (asleep == 0) {
    for (;;) pause();
  }
  EXPECT_TRUE(becomes_so([&] { return wants_to_run(busy); }));
  EXPECT_TRUE(becomes_so([&] { return cpu_ns_of(busy) > 0; }));
  EXPECT_TRUE(
      becomes_so([&] { return cpu_ns_with_children() > cpu_ns_of(getpid()) + 200'000'000; }));
  EXPECT_TRUE(becomes_so([&] { return !wants_to_run(asleep); }));
  kill(busy, SIGSTOP);
  EXPECT_TRUE(becomes_so([&] { return !wants_to_run(busy); }));
  for (const pid_t child : {busy, asleep}) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    EXPECT_FALSE(wants_to_run(child));
    EXPECT_EQ(cpu_ns_of(child), 0);
    EXPECT_FALSE(handle_of(process_with(child)).valid());
  }
  EXPECT_TRUE(handle_of(own_process()).valid());
}

}  // namespace
}  // namespace overlord::node
