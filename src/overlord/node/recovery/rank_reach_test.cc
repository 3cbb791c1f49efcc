// Ranks that have no node any more find out where all of them stop.
#include "overlord/node/recovery/rank_reach.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <vector>

#include "overlord/storage/temporary_directory_test.h"

namespace overlord::node {
namespace {

class Reaching : public ::testing::Test {
 protected:
  Reaching() { chmod(folder_.path().c_str(), 0700); }
  // As another process would.
  std::unique_ptr<RankReach> open(uint32_t ranks = 4) {
    std::string path = folder_.path();
    path.pop_back();
    Result<std::unique_ptr<RankReach>> reach = RankReach::open(path, ranks);
    EXPECT_TRUE(reach.ok()) << reach.status().message();
    return std::move(*reach);
  }
  storage::TemporaryDirectory folder_;
};

TEST_F(Reaching, AStepThatAllHaveMayBeBegun) {
  const auto first = open();
  const auto second = open();
  first->join(0, 5);
  second->join(3, 5);
  EXPECT_EQ(first->common(), 5u) << "ranks that have not joined hold up nobody";
  first->set_ready(0, 9);
  second->set_ready(3, 7);
  EXPECT_EQ(first->common(), 7u);
  EXPECT_EQ(second->common(), 7u);
  EXPECT_EQ(second->stopped(), std::nullopt);
  second->leave(3);
  EXPECT_EQ(first->common(), 9u);
}

TEST_F(Reaching, WhatSomeRankHasBegunTheOthersHaveToGet) {
  const auto reach = open();
  reach->join(0, 0);
  reach->join(1, 0);
  reach->set_ready(0, 6);
  reach->set_begun(0, 6);
  reach->set_ready(1, 3);
  EXPECT_EQ(reach->common(), 6u);
}

TEST_F(Reaching, TheFirstDecidesForAll) {
  const auto first = open();
  const auto second = open();
  first->join(0, 0);
  second->join(1, 0);
  first->set_ready(0, 8);
  second->set_ready(1, 4);
  EXPECT_EQ(first->stop(), 4u);
  second->set_ready(1, 8);
  EXPECT_EQ(second->stop(), 4u);
  EXPECT_EQ(second->stopped(), 4u);
  EXPECT_EQ(open()->stopped(), 4u) << "who comes late as well";
}

TEST_F(Reaching, WhoWasKilledIsNotWaitedFor) {
  const auto reach = open();
  reach->join(0, 0);
  EXPECT_FALSE(reach->others()) << "of this process";
  const pid_t other = fork();
  if (other == 0) {
    reach->join(1, 0);
    for (;;) pause();
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (!reach->others() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_TRUE(reach->others());
  kill(other, SIGKILL);
  waitpid(other, nullptr, 0);
  EXPECT_FALSE(reach->others());
}

TEST_F(Reaching, ANewRunKnowsNothingOfTheOneBefore) {
  open()->join(0, 3);
  open()->stop();
  forget_reach(folder_.path());
  EXPECT_EQ(open()->stopped(), std::nullopt);
}

// Every rank begins steps as fast as it can; one says stop at some moment.
TEST_F(Reaching, NobodyBeginsWhatIsStopped) {
  for (int round = 0; round < 200; ++round) {
    forget_reach(folder_.path());
    constexpr Rank kRanks = 3;
    std::vector<StepIndex> begun(kRanks, 0);
    const auto shared = open();
    for (Rank rank = 0; rank < kRanks; ++rank) {
      shared->join(rank, 0);
      shared->set_ready(rank, 0);
    }
    std::vector<std::thread> threads;
    for (Rank rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        const auto own = open();
        for (StepIndex step = 0;; ++step) {
          own->set_ready(rank, step + 1);
          own->set_begun(rank, step + 1);
          const std::optional<StepIndex> stop = own->stopped();
          if (stop && step >= *stop) break;
          begun[rank] = step + 1;
        }
      });
    }
    std::thread stopper([&] { open()->stop(); });
    for (std::thread& thread : threads) thread.join();
    stopper.join();
    for (Rank rank = 0; rank < kRanks; ++rank) EXPECT_EQ(begun[rank], *shared->stopped()) << rank;
  }
}

}  // namespace
}  // namespace overlord::node
