// What a node leaves for the next: whom it finds again, and whom it must not take for one of them.
#include "overlord/node/recovery/left_groups.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "overlord/node/recovery/directory_file.h"
#include "overlord/storage/temporary_directory_test.h"

namespace overlord::node {
namespace {

class LeftBehind : public ::testing::Test {
 protected:
  LeftBehind() { chmod(folder_.path().c_str(), 0700); }
  std::string directory() const {
    std::string path = folder_.path();
    path.pop_back();
    return path;
  }
  storage::TemporaryDirectory folder_;
};

// A process that does nothing, of this test.
class Sleeper {
 public:
  Sleeper() : pid_(fork()) {
    if (pid_ == 0) {
      for (;;) pause();
    }
  }
  ~Sleeper() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

TEST_F(LeftBehind, IsFoundAsItWasLeft) {
  const Result<LeftGroups> none = find_groups(directory());
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->keeper, 0u) << "there was no node before";
  const LeftGroups left{3, "run", 7, {{"loaders-0", 5, {12, 34}}}, {1, 2}};
  ASSERT_TRUE(leave_groups(directory(), left).ok());
  const Result<LeftGroups> found = find_groups(directory());
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->keeper, 3u);
  EXPECT_EQ(found->run, "run");
  EXPECT_EQ(found->attempt, 7u);
  ASSERT_EQ(found->placements().size(), 1u);
  EXPECT_EQ(found->placements()[0].name, "loaders-0");
  EXPECT_EQ(found->placements()[0].generation, 5u);
  EXPECT_EQ(found->groups[0].process.started, 34u);
  EXPECT_EQ(found->local, (std::vector<Rank>{1, 2}));
}

TEST_F(LeftBehind, ADamagedFileIsNamed) {
  ASSERT_TRUE(leave_groups(directory(), {3, "run", 7, {}, {}}).ok());
  std::string bytes = folder_.read("groups");
  struct stat info{};
  ASSERT_EQ(stat(folder_.path("groups").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  bytes.back() ^= 1;
  folder_.write("groups", bytes);
  const Status damaged = find_groups(directory()).status();
  EXPECT_EQ(damaged.code(), Code::kBadData);
  EXPECT_NE(damaged.message().find("groups"), std::string::npos);
}

TEST_F(LeftBehind, AProcessIsKnownByItsStartToo) {
  const Sleeper sleeper;
  const LivingProcess process = process_with(sleeper.pid());
  EXPECT_TRUE(handle_of(process).valid());
  EXPECT_FALSE(handle_of({process.pid, process.started + 1}).valid())
      << "another one has its number by now";
  EXPECT_FALSE(handle_of({process.pid, 0}).valid());
  EXPECT_FALSE(handle_of({}).valid());
}

TEST_F(LeftBehind, NothingIsLeftOfGroupsThatNobodyNeeds) {
  const Sleeper sleeper;
  const Sleeper other;
  const LivingProcess process = process_with(sleeper.pid());
  end_groups({1, {}, 0, {{"loaders-0", 1, process}, {"gone", 1, {other.pid(), 1}}}, {}});
  EXPECT_FALSE(handle_of(process).valid());
  EXPECT_TRUE(handle_of(process_with(other.pid())).valid()) << "not one of them";
}

}  // namespace
}  // namespace overlord::node
