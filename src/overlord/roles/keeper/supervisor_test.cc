#include "overlord/roles/keeper/supervisor.h"

#include <gtest/gtest.h>

namespace overlord::keeper {
namespace {

constexpr int64_t kSupervisedSecond = 1'000'000'000;

protocol::ProcessRoles group(const std::string& name) {
  return {name, 1, {protocol::loader_address(0, 0)}};
}

TEST(Supervisor, RestartsUnderTheNextGeneration) {
  Supervisor supervisor({group("loaders-0"), group("loaders-1")});
  const Supervisor::Decision decision = supervisor.ended({"loaders-1", 1, "signal 9", ""}, 0);
  ASSERT_TRUE(decision.restart);
  EXPECT_EQ(decision.restart->name, "loaders-1");
  EXPECT_EQ(decision.restart->generation, 2u);
  EXPECT_EQ(supervisor.groups()[0].generation, 1u);
  EXPECT_EQ(supervisor.groups()[1].generation, 2u);
  EXPECT_EQ(supervisor.restarts(), 1u);
}

TEST(Supervisor, HearsOfAnEndOnce) {
  Supervisor supervisor({group("loaders-0")});
  ASSERT_TRUE(supervisor.ended({"loaders-0", 1, "signal 9", ""}, 0).restart);
  EXPECT_FALSE(supervisor.ended({"loaders-0", 1, "signal 9", ""}, 0).restart);
  EXPECT_FALSE(supervisor.ended({"of another job", 1, "signal 9", ""}, 0).restart);
}

TEST(Supervisor, GivesUpOnWhatCannotStayAlive) {
  Supervisor supervisor({group("loaders-0")},
                        {.restarts_allowed = 3, .within_ns = 10 * kSupervisedSecond});
  for (uint32_t i = 1; i <= 3; ++i) {
    ASSERT_TRUE(supervisor.ended({"loaders-0", i, "signal 11", ""}, i * kSupervisedSecond).restart);
  }
  const Supervisor::Decision last = supervisor.ended(
      {"loaders-0", 4, "signal 11", "cannot open a.parquet"}, 4 * kSupervisedSecond);
  EXPECT_FALSE(last.restart);
  EXPECT_EQ(last.give_up.code(), Code::kUnavailable);
  EXPECT_NE(last.give_up.message().find("signal 11: cannot open a.parquet"), std::string::npos);
}

TEST(Supervisor, GivesUpSoonerOnWhatCannotStart) {
  Supervisor supervisor({group("loaders-0")}, {.failed_starts_allowed = 2});
  const auto ends = [&](uint32_t generation) {
    supervisor.placed("loaders-0", 0);
    return supervisor.ended({"loaders-0", generation, "exit status 1", "no shard", true}, 0);
  };
  ASSERT_TRUE(ends(1).restart);
  ASSERT_TRUE(ends(2).restart);
  supervisor.placed("loaders-0", 0);
  supervisor.heard({"loaders-0", 3}, 0);
  ASSERT_TRUE(supervisor.ended({"loaders-0", 3, "exit status 1", "", true}, 0).restart)
      << "one that had begun";
  ASSERT_TRUE(ends(4).restart);
  supervisor.placed("loaders-0", 0);
  ASSERT_TRUE(supervisor.ended({"loaders-0", 5, "signal 9", ""}, 0).restart) << "was killed";
  ASSERT_TRUE(ends(6).restart);
  ASSERT_TRUE(ends(7).restart);
  const Supervisor::Decision last = ends(8);
  EXPECT_FALSE(last.restart);
  EXPECT_NE(last.give_up.message().find("cannot start"), std::string::npos);
  EXPECT_NE(last.give_up.message().find("exit status 1: no shard"), std::string::npos);
}

TEST(Supervisor, ForgetsOldEnds) {
  Supervisor supervisor({group("loaders-0")},
                        {.restarts_allowed = 1, .within_ns = kSupervisedSecond});
  for (uint32_t i = 1; i <= 20; ++i) {
    ASSERT_TRUE(
        supervisor.ended({"loaders-0", i, "signal 9", ""}, i * 2 * kSupervisedSecond).restart)
        << i;
  }
}

TEST(Supervisor, NamesTheSilentOnce) {
  Supervisor supervisor({group("loaders-0"), group("loaders-1")},
                        {.silence_ns = 3 * kSupervisedSecond, .start_ns = 30 * kSupervisedSecond});
  supervisor.placed("loaders-0", 0);
  supervisor.placed("loaders-1", 0);
  supervisor.heard({"loaders-0", 1}, kSupervisedSecond);
  EXPECT_TRUE(supervisor.silent(3 * kSupervisedSecond).empty());
  EXPECT_TRUE(supervisor.silent(30 * kSupervisedSecond, {"loaders-0"}).empty()) << "it gets no CPU";
  EXPECT_FALSE(supervisor.silent(32 * kSupervisedSecond, {"loaders-0"}).empty());
  EXPECT_EQ(supervisor.silent(5 * kSupervisedSecond), std::vector<std::string>{"loaders-0"});
  supervisor.condemn("loaders-0");
  EXPECT_TRUE(supervisor.silent(6 * kSupervisedSecond).empty()) << "each is named once";
  EXPECT_EQ(supervisor.silent(31 * kSupervisedSecond), std::vector<std::string>{"loaders-1"})
      << "one that opens files may take longer";
  supervisor.condemn("loaders-1");
  ASSERT_TRUE(supervisor.ended({"loaders-0", 1, "signal 9", ""}, 31 * kSupervisedSecond).restart);
  supervisor.placed("loaders-0", 31 * kSupervisedSecond);
  supervisor.heard({"loaders-0", 1}, 32 * kSupervisedSecond);  // a late word of the dead
  supervisor.heard({"loaders-0", 2}, 32 * kSupervisedSecond);
  EXPECT_EQ(supervisor.silent(40 * kSupervisedSecond), std::vector<std::string>{"loaders-0"});
}

}  // namespace
}  // namespace overlord::keeper
