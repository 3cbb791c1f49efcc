// When a process remembers what it does, and what it leaves behind.
#include "overlord/node/status/trace_switch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <ctime>
#include <filesystem>

#include "overlord/runtime/trace.h"
#include "overlord/storage/temporary_directory_test.h"

namespace overlord::node {
namespace {

class TraceSwitched : public ::testing::Test {
 protected:
  void TearDown() override { static_cast<void>(runtime::TraceBook::of_process().stop()); }
  bool on() {
    trace_.poll();
    return runtime::TraceBook::of_process().on();
  }
  // Somebody wanted it so many seconds ago.
  void wanted(int64_t seconds_ago) {
    folder_.write("trace-wanted", "");
    const timespec then{std::time(nullptr) - seconds_ago, 0};
    const timespec times[] = {then, then};
    ASSERT_EQ(utimensat(AT_FDCWD, folder_.path("trace-wanted").c_str(), times, 0), 0);
  }

  storage::TemporaryDirectory folder_;
  TraceSwitch trace_{folder_.path(), "loaders-0"};
};

TEST_F(TraceSwitched, IsOnAsLongAsSomebodyWantsIt) {
  EXPECT_FALSE(on());
  wanted(0);
  EXPECT_TRUE(on());
  EXPECT_TRUE(on());
  std::filesystem::remove(folder_.path("trace-wanted"));
  EXPECT_FALSE(on());
}

TEST_F(TraceSwitched, AnOldWishWasForgotten) {
  wanted(60);
  EXPECT_FALSE(on());
  wanted(5);
  EXPECT_TRUE(on());
  wanted(60);
  EXPECT_FALSE(on());
  EXPECT_TRUE(std::filesystem::exists(folder_.path("trace-of-loaders-0")));
}

TEST_F(TraceSwitched, LeavesALineForEveryEventAndNothingUnfinished) {
  wanted(0);
  ASSERT_TRUE(on());
  runtime::TraceBook::of_process().note("read", "so\tu\nrce", 100, 150, 7);
  EXPECT_FALSE(std::filesystem::exists(folder_.path("trace-of-loaders-0"))) << "not before the end";
  std::filesystem::remove(folder_.path("trace-wanted"));
  EXPECT_FALSE(on());
  const std::string text = folder_.read("trace-of-loaders-0");
  EXPECT_TRUE(text.starts_with("100\t50\t7\t")) << text;
  EXPECT_TRUE(text.ends_with("\tread\tso u rce\n")) << "fields and lines stay apart: " << text;
  struct stat info = {};
  ASSERT_EQ(stat(folder_.path("trace-of-loaders-0").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  size_t files = 0;
  for ([[maybe_unused]] const auto& file : std::filesystem::directory_iterator(folder_.path())) {
    ++files;
  }
  EXPECT_EQ(files, 1u);
}

}  // namespace
}  // namespace overlord::node
