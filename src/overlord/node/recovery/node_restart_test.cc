// A program of the test stands for the node: it says with what it was started.
#include "overlord/node/recovery/node_restart.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>

#include "overlord/storage/temporary_directory_test.h"
#include "overlord/transport/socket_directory.h"

namespace overlord::node {
namespace {

class NodeRestarts : public ::testing::Test {
 protected:
  NodeRestarts() {
    chmod(folder_.path().c_str(), 0700);
    folder_.write("program", "#!/bin/sh\necho \"$@\" > " + folder_.path("words") + "\ncat > " +
                                 folder_.path("input") + "\n");
    chmod(folder_.path("program").c_str(), 0700);
  }
  std::string directory() const {
    std::string path = folder_.path();
    path.pop_back();
    return path;
  }
  storage::TemporaryDirectory folder_;
};

TEST_F(NodeRestarts, StartsWithTheSameWordsAndTheSameJob) {
  const NodeRestart left =
      restart_of(folder_.path("program"), "digest", {"stays=0", "local=0,1"}, "the job");
  ASSERT_TRUE(leave_restart(directory(), left).ok());
  const Result<bool> started = start_node_again(directory());
  ASSERT_TRUE(started.ok()) << started.status().message();
  EXPECT_TRUE(*started);
  EXPECT_EQ(folder_.read("words"), "keep " + directory() + " 3 digest stays=0 local=0,1\n");
  const std::string input = folder_.read("input");
  ASSERT_EQ(input.size(), 8 + 8u);
  uint64_t size_bytes = 0;
  std::memcpy(&size_bytes, input.data(), sizeof(size_bytes));
  EXPECT_EQ(size_bytes, 8u);
  EXPECT_EQ(input.substr(8), "Jthe job");
}

TEST_F(NodeRestarts, WhoHasNoLockStartsNothing) {
  ASSERT_TRUE(leave_restart(directory(), restart_of(folder_.path("program"), "", {}, "")).ok());
  Result<transport::SocketDirectory> at = transport::SocketDirectory::find(directory());
  ASSERT_TRUE(at.ok());
  const auto lock = at->try_lock();
  ASSERT_TRUE(lock.ok() && *lock);
  const Result<bool> started = start_node_again(directory());
  ASSERT_TRUE(started.ok());
  EXPECT_FALSE(*started);
  EXPECT_EQ(folder_.read("words"), "");
}

TEST_F(NodeRestarts, WhatCannotBeStartedIsNamed) {
  EXPECT_EQ(start_node_again(directory()).status().code(), Code::kNotFound)
      << "a node that ended in good order, or that somebody else starts";
  ASSERT_TRUE(leave_restart(directory(), restart_of("/no/such/program", "", {}, "")).ok());
  const Status missing = start_node_again(directory()).status();
  EXPECT_NE(missing.message().find("/no/such/program"), std::string::npos) << missing.message();
  folder_.write("program", "#!/bin/sh\nexit 7\n");
  ASSERT_TRUE(leave_restart(directory(), restart_of(folder_.path("program"), "", {}, "")).ok());
  const Status ended = start_node_again(directory()).status();
  EXPECT_NE(ended.message().find("status 7"), std::string::npos) << ended.message();
  Result<transport::SocketDirectory> at = transport::SocketDirectory::find(directory());
  EXPECT_TRUE(at.ok() && at->try_lock()->has_value()) << "others may try";
}

}  // namespace
}  // namespace overlord::node
