// What role processes are told on their command line; echo stands for one.
#include "overlord/node/keeper/role_cluster.h"

#include <gtest/gtest.h>

#include <future>

#include "overlord/node/engine/job_memory.h"

namespace overlord::node {
namespace {

// All that the cluster printed of a process that repeats what it is told.
std::string repeated(KeeperArguments arguments) {
  arguments.directory = "/the/folder";
  arguments.executable = "/bin/echo";
  const auto job = job_in_memory({});
  ::testing::internal::CaptureStderr();
  auto cluster = start_role_cluster(arguments, "job", job->get());
  EXPECT_TRUE(cluster.ok()) << cluster.status().message();
  std::promise<void> over;
  (*cluster)->watch([&over](const runtime::GroupEnd&) { over.set_value(); });
  const Status placed = (*cluster)->place({"loaders-0", 2});
  EXPECT_TRUE(placed.ok()) << placed.message();
  if (placed.ok()) over.get_future().wait();
  (*cluster)->stop();
  return ::testing::internal::GetCapturedStderr();
}

TEST(RoleCluster, AloneOnItsHostAProcessIsToldItsFolderNameAndGeneration) {
  KeeperArguments arguments;
  arguments.wire.bind = "here:7";  // of no use without others
  EXPECT_EQ(repeated(arguments), "loaders-0: role /the/folder loaders-0 2\n");
  arguments.share_batches = false;
  EXPECT_EQ(repeated(arguments), "loaders-0: role /the/folder loaders-0 2 share_batches=0\n");
}

TEST(RoleCluster, AmongSeveralHostsItListensWhereItsNodeDoesOnAPortOfItsOwn) {
  KeeperArguments arguments;
  arguments.wire.lead = "lead:7";
  arguments.wire.bind = "here:8";
  arguments.wire.token = "env:TOKEN";
  EXPECT_EQ(repeated(arguments),
            "loaders-0: role /the/folder loaders-0 2 wire.lead=lead:7 wire.bind=here:0 "
            "wire.token=env:TOKEN\n");
  arguments.wire.leads = true;
  arguments.wire.bind.clear();
  EXPECT_EQ(repeated(arguments),
            "loaders-0: role /the/folder loaders-0 2 wire.lead=lead:7 wire.bind=lead:0 "
            "wire.token=env:TOKEN wire.leads=1\n");
}

}  // namespace
}  // namespace overlord::node
