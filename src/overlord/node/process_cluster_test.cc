// What outlives a cluster and is taken over by the next; the contract of every cluster is held by
// tests/integration/cluster_conformance_test.cc.
#include "overlord/node/process_cluster.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <future>

namespace overlord::node {
namespace {

class LeftClusters : public ::testing::Test {
 protected:
  // `left_` is what the newest one says that lives.
  std::unique_ptr<ProcessCluster> make() {
    ProcessClusterOptions options;
    options.executable = "/bin/sh";
    options.arguments = {"/bin/sh", "-c", "exec sleep 3600", "{name}"};
    options.changed = [this](const std::vector<LeftGroup>& living) {
      const std::lock_guard lock(mutex_);
      left_ = living;
    };
    auto made = ProcessCluster::start(std::move(options));
    EXPECT_TRUE(made.ok()) << made.status().message();
    return std::move(*made);
  }
  std::vector<LeftGroup> left() {
    const std::lock_guard lock(mutex_);
    return left_;
  }
  // One that lives without its cluster.
  LeftGroup leave_one(const std::string& name, uint32_t generation) {
    const auto first = make();
    EXPECT_TRUE(first->place({name, generation}).ok());
    first->leave();
    EXPECT_EQ(left().size(), 1u);
    return left().front();
  }

  std::mutex mutex_;
  std::vector<LeftGroup> left_;
};

TEST_F(LeftClusters, ArePlacedInTheNextAndTheirEndIsTold) {
  const LeftGroup one = leave_one("loaders-0", 7);
  EXPECT_TRUE(handle_of(one.process).valid()) << "it serves on";
  const auto next = make();
  LeftGroup dead = one;
  dead.name = "constructors-0";
  ++dead.process.started;
  ASSERT_TRUE(next->adopt({one, dead}).ok());
  ASSERT_EQ(next->placed().size(), 1u) << "whoever has the number of a dead one is another";
  EXPECT_EQ(next->placed()[0].generation, 7u);
  EXPECT_EQ(next->process_of("loaders-0"), one.process.pid);
  EXPECT_EQ(left().size(), 1u) << "the one after it would find it too";
  EXPECT_FALSE(next->place({"loaders-0", 8}).ok()) << "it lives";
  std::promise<runtime::GroupEnd> ended;
  next->kill("loaders-0");  // before anybody watches: its end is not lost
  next->watch([&](const runtime::GroupEnd& end) { ended.set_value(end); });
  const runtime::GroupEnd end = ended.get_future().get();
  EXPECT_EQ(end.name, "loaders-0");
  EXPECT_EQ(end.generation, 7u);
  EXPECT_FALSE(end.by_itself);
  EXPECT_TRUE(left().empty());
  waitpid(static_cast<pid_t>(one.process.pid), nullptr, 0);
}

TEST_F(LeftClusters, EndWithTheOneThatHasAdoptedThem) {
  const LeftGroup one = leave_one("loaders-0", 1);
  {
    const auto next = make();
    next->watch([](const runtime::GroupEnd&) {});
    ASSERT_TRUE(next->adopt({one}).ok());
    next->stop();
  }
  EXPECT_FALSE(handle_of(one.process).valid());
  waitpid(static_cast<pid_t>(one.process.pid), nullptr, 0);
}

}  // namespace
}  // namespace overlord::node
