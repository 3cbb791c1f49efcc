#include "overlord/node/status/run_notes.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "overlord/transport/socket_directory.h"

namespace overlord::node {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

class RunNotesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/run_notes_test_XXXXXX";
    ASSERT_NE(mkdtemp(path), nullptr);
    base_ = path;
  }
  void TearDown() override { std::filesystem::remove_all(base_); }

  std::string directory(const std::string& name) {
    const std::string path = base_ + "/overlord-" + name;
    EXPECT_TRUE(transport::SocketDirectory::make(path).ok());
    return path;
  }
  RunNotes notes(const std::string& name, const std::string& run, uint64_t job) {
    return {directory(name), run, Digest{0, job}};
  }

  std::string base_;
};

TEST_F(RunNotesTest, OfTwoThatWaitForEachOtherBothAreTold) {
  RunNotes a = notes("a", "run", 1), b = notes("b", "run", 2);
  for (int64_t now = 0; now < 2 * kSecond; now += kSecond / 2) {
    ASSERT_FALSE(b.look({1}, {0}, now)) << "those that are about to come are waited for";
    ASSERT_FALSE(a.look({0}, {1}, now));
  }
  ASSERT_FALSE(b.look({1}, {0}, 3 * kSecond)) << "the other one tells";
  const std::optional<Status> first = a.look({0}, {1}, 3 * kSecond);
  const std::optional<Status> second = b.look({1}, {0}, 3 * kSecond);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->code(), Code::kStateMismatch);
  EXPECT_EQ(first->message(), second->message());
  EXPECT_NE(first->message().find("rank 0 for"), std::string::npos);
  EXPECT_NE(first->message().find("rank 1 for"), std::string::npos);
}

TEST_F(RunNotesTest, OthersAreNoBusinessOfOurs) {
  RunNotes a = notes("a", "run", 1), other_run = notes("b", "another", 2);
  RunNotes other_ranks = notes("c", "run", 2), served = notes("d", "run", 3);
  for (int64_t now = 0; now < 10 * kSecond; now += kSecond) {
    EXPECT_FALSE(other_run.look({1}, {0}, now));
    EXPECT_FALSE(other_ranks.look({0}, {1}, now));
    EXPECT_FALSE(served.look({1}, {0}, now));
    served.stop();
    EXPECT_FALSE(a.look({0}, {1}, now));
  }
}

}  // namespace
}  // namespace overlord::node
