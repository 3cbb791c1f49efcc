#include "overlord/node/recovery/node_starter.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <functional>

#include "overlord/node/recovery/node_restart.h"
#include "overlord/storage/temporary_directory_test.h"

namespace overlord::node {
namespace {

bool comes_true(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST(NodeStarter, TriesUntilItIsToldThatThereIsANode) {
  const storage::TemporaryDirectory folder;
  chmod(folder.path().c_str(), 0700);
  std::string directory = folder.path();
  directory.pop_back();
  NodeStarter starter(directory);
  starter.begin();
  EXPECT_TRUE(comes_true([&] { return !starter.last_failure().ok(); }));
  EXPECT_NE(starter.last_failure().message().find("restart"), std::string::npos);
  folder.write("program", "#!/bin/sh\necho started >> " + folder.path("starts") + "\n");
  chmod(folder.path("program").c_str(), 0700);
  ASSERT_TRUE(leave_restart(directory, restart_of(folder.path("program"), "", {}, "")).ok());
  EXPECT_TRUE(comes_true([&] { return folder.read("starts").size() > 8; })) << "again and again";
  starter.rest();
  EXPECT_TRUE(starter.last_failure().ok());
  starter.stop();
  const std::string starts = folder.read("starts");
  starter.begin();
  starter.stop();
  EXPECT_EQ(folder.read("starts"), starts) << "what was stopped starts nothing";
}

}  // namespace
}  // namespace overlord::node
