#include "overlord/node/recovery/node_pulse.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>

#include "overlord/storage/temporary_directory_test.h"

namespace overlord::node {
namespace {

bool in_time(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

class Pulse : public ::testing::Test {
 protected:
  Pulse() {
    chmod(folder_.path().c_str(), 0700);
    directory_ = folder_.path();
    directory_.pop_back();
  }
  storage::TemporaryDirectory folder_;
  std::string directory_;
};

TEST_F(Pulse, IsSeenAsLongAsTheProcessRuns) {
  EXPECT_EQ(see_pulse(directory_).status().code(), Code::kNotFound);
  Result<std::unique_ptr<NodePulse>> pulse = NodePulse::begin(directory_);
  ASSERT_TRUE(pulse.ok()) << pulse.status().message();
  const Result<SeenPulse> first = see_pulse(directory_);
  ASSERT_TRUE(first.ok()) << first.status().message();
  EXPECT_EQ(first->process.pid, getpid());
  EXPECT_TRUE(in_time([&] { return see_pulse(directory_)->beat != first->beat; }));
  pulse->reset();
  const int64_t last = see_pulse(directory_)->beat;
  EXPECT_EQ(see_pulse(directory_)->beat, last);
}

TEST_F(Pulse, TheProcessThatLeftItIsKilled) {
  const pid_t child = fork();
  if (child == 0) {
    const auto pulse = NodePulse::begin(directory_);
    for (;;) pause();
  }
  ASSERT_TRUE(in_time([&] {
    const Result<SeenPulse> seen = see_pulse(directory_);
    return seen.ok() && seen->process.pid == child;
  }));
  kill(child, SIGSTOP);
  kill_node(directory_);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  kill_node(directory_);  // nobody
}

}  // namespace
}  // namespace overlord::node
