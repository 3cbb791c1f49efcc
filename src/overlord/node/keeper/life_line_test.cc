// What a node makes of what it is sent, and when it is to end.
#include "overlord/node/keeper/life_line.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <future>

#include "overlord/protocol/control.h"

namespace overlord::node {
namespace {

// Standard input is a pipe here, and SIGTERM is as it was once the test is over.
class LifeLines : public ::testing::Test {
 protected:
  void SetUp() override {
    pthread_sigmask(SIG_BLOCK, nullptr, &mask_);
    stdin_ = dup(STDIN_FILENO);
    int ends[2] = {};
    ASSERT_EQ(pipe(ends), 0);
    ASSERT_EQ(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
    close(ends[0]);
    starter_ = ends[1];
    line_ = *LifeLine::make();
  }
  void TearDown() override {
    line_.reset();
    hang_up();
    if (stdin_ >= 0) dup2(stdin_, STDIN_FILENO);
    if (stdin_ < 0) close(STDIN_FILENO);
    close(stdin_);
    pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  }
  void hang_up() {
    if (starter_ >= 0) close(starter_);
    starter_ = -1;
  }
  void send(const std::string& bytes) {
    ASSERT_EQ(write(starter_, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  void send_sized(uint64_t size_bytes, const std::string& body) {
    send(std::string(reinterpret_cast<const char*>(&size_bytes), sizeof size_bytes) + body);
  }
  void send_message(const std::string& body) { send_sized(body.size(), body); }
  void refused(Code code, const std::string& says) {
    const Status status = line_->job().status();
    EXPECT_EQ(status.code(), code) << says;
    EXPECT_NE(status.message().find(says), std::string::npos) << status.message();
  }

  sigset_t mask_ = {};
  int stdin_ = -1;
  int starter_ = -1;
  std::unique_ptr<LifeLine> line_;
};

TEST_F(LifeLines, AJobIsWhatFollowsItsKind) {
  send_message("Jall of it");
  hang_up();
  const auto job = line_->job();
  ASSERT_TRUE(job.ok()) << job.status().message();
  EXPECT_EQ(*job, "all of it");
}

TEST_F(LifeLines, WhoCannotOpenTheSourcesSaysWhy) {
  send_message("F" + protocol::encode_control(
                         protocol::Refused{Status(Code::kSourceChanged, "shard 3 grew")}));
  refused(Code::kSourceChanged, "shard 3 grew");
}

TEST_F(LifeLines, WhatIsNoJobIsNotTakenForOne) {
  send_sized(0, "");
  refused(Code::kBadData, "no job on standard input");
  send_sized((uint64_t{1} << 40) + 1, "");  // refused before memory is asked for
  refused(Code::kBadData, "no job on standard input");
  send_message("X");
  refused(Code::kBadData, "no job on standard input");
  send_message("F" + protocol::encode_control(protocol::Detach{}));
  refused(Code::kBadData, "no job on standard input");
}

TEST_F(LifeLines, AStarterThatEndsLeavesNoJob) {
  send_sized(100, "Jhalf of it");
  hang_up();
  refused(Code::kUnavailable, "has ended: see its log");
}

TEST_F(LifeLines, ATermThatComesFirstEndsTheWait) {
  send_message("Ja job");
  raise(SIGTERM);
  refused(Code::kCancelled, "told to end (SIGTERM)");
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  const timespec at_once = {};
  EXPECT_EQ(sigtimedwait(&term, nullptr, &at_once), SIGTERM) << "it was held back, not taken";
}

TEST_F(LifeLines, TheEndOfAProcessThatStaysIsTold) {
  std::promise<Status> told;
  ASSERT_TRUE(
      line_->watch(LifeLine::Starter::kStays, [&](const Status& why) { told.set_value(why); })
          .ok());
  hang_up();
  const Status why = told.get_future().get();
  EXPECT_EQ(why.code(), Code::kUnavailable);
  EXPECT_NE(why.message().find("overlord serve"), std::string::npos) << why.message();
}

TEST_F(LifeLines, WithAProcessThatIsRunAgainTheNodeDies) {
  hang_up();
  EXPECT_EXIT(
      {
        std::promise<void> never;
        if (line_->watch(LifeLine::Starter::kComesAgain, [&](const Status&) { _exit(0); }).ok()) {
          never.get_future().wait();
        }
      },
      ::testing::ExitedWithCode(1), "");
}

TEST_F(LifeLines, NothingIsToldOfAStarterThatMayGoOrAfterUnwatch) {
  bool told = false;
  hang_up();
  ASSERT_TRUE(line_->watch(LifeLine::Starter::kLeaves, [&](const Status&) { told = true; }).ok());
  line_->unwatch();
  line_->unwatch();
  EXPECT_FALSE(told);
  // It can be watched again: what unwatched it is not taken for an event.
  std::promise<Status> second;
  ASSERT_TRUE(
      line_->watch(LifeLine::Starter::kStays, [&](const Status& why) { second.set_value(why); })
          .ok());
  EXPECT_EQ(second.get_future().get().code(), Code::kUnavailable);
}

}  // namespace
}  // namespace overlord::node
