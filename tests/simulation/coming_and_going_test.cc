// Roles that come and go in a host that runs: the stream is the same, and nobody else loses a
// message.
#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "overlord/runtime/in_memory/memory_journal.h"
#include "overlord/runtime/steady_clock.h"
#include "overlord/runtime/thread_executor.h"
#include "overlord/sim/scenario.h"
#include "simulation/seeds.h"
#include "simulation/storms.h"

namespace overlord::sim {
namespace coming_and_going_test {

using protocol::Address;

Scenario with_slots() {
  Scenario scenario = Scenario::small();
  for (model::Source& source : scenario.spec.sources) source.loaders = 2;
  return scenario;
}

TEST(ComingAndGoing, LoadersAndConstructorsMayLeaveAndComeBack) {
  const Scenario scenario = with_slots();
  const Digest expected = quiet_hash(scenario, 8);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    auto cluster = scenario.start(seed);
    ASSERT_TRUE(cluster->run(1 + seed % 4));
    const std::vector<Address> leaving = {protocol::loader_address(seed % 3, seed % 2),
                                          protocol::constructor_address(seed % 2)};
    for (const Address& role : leaving) cluster->host().retire(role);
    EXPECT_EQ(cluster->host().hosted().size(), 1 + 6 + 2 + 2 - leaving.size());
    for (uint64_t i = 0; i < seed * 7; ++i) {  // what is sent to them meanwhile is lost
      cluster->world().run_until([] { return false; }, 1);
    }
    for (const Address& role : leaving) cluster->host().add(role, 2);
    ASSERT_TRUE(cluster->run(7 - seed % 4)) << "hangs with seed " << seed;
    EXPECT_FALSE(cluster->failure());
    EXPECT_EQ(cluster->stream_hash(), expected) << seed;
  }
}

TEST(ComingAndGoing, AClientMayComeAfterTheOthersHaveBegun) {
  const Scenario scenario = with_slots();
  const Digest expected = quiet_hash(scenario, 6);
  auto cluster = scenario.start(5);
  cluster->host().retire(protocol::client_address(1));
  ASSERT_TRUE(cluster->take(0, 1));
  cluster->host().add(protocol::client_address(1), 2, 0);
  const uint64_t microbatches = cluster->delivered(0).batches.front()->core->count;
  ASSERT_TRUE(cluster->take(0, microbatches - 1));
  ASSERT_TRUE(cluster->take(1, microbatches));
  ASSERT_TRUE(cluster->run(5));
  EXPECT_EQ(cluster->stream_hash(), expected);
}

TEST(ComingAndGoing, ALoaderThatLeavesGivesItsMemoryBack) {
  const Scenario scenario = with_slots();
  auto cluster = scenario.start(3);
  ASSERT_TRUE(cluster->run(4));
  cluster->world().run_until([] { return false; }, 1'000'000);
  ASSERT_GT(cluster->host().budget().used_bytes, 0u);
  for (const auto& loader : cluster->host().loaders()) {
    cluster->host().retire(protocol::loader_address(loader.source, loader.slot));
  }
  EXPECT_EQ(cluster->host().budget().used_bytes, 0u);
}

// Real threads: a slot leaves and comes back again and again while all others work.
TEST(ComingAndGoing, ThreadsAgreeWithTheQuietWorld) {
  constexpr StepIndex kSteps = 60;
  const Scenario scenario = with_slots();
  const auto job = scenario.open();
  auto quiet = scenario.start(1);
  ASSERT_TRUE(quiet->run(kSteps));

  std::mutex mutex;
  std::condition_variable changed;
  std::map<Rank, std::vector<Digest>> digests;  // of microbatches
  std::map<Rank, StepIndex> steps;
  runtime::SteadyClock clock;
  runtime::ThreadExecutor executor(3, "test");
  runtime::MemoryJournal journal;
  runtime::ByteEncoder encoder(executor);
  host::HostStart start;
  start.job = job;
  start.ranks = scenario.all_ranks();
  start.options = scenario.options;
  start.state = host::start_state(*job);
  host::RoleHost* running = nullptr;
  start.deliver = [&](Rank rank, client::ReadyStep ready) {
    if (ready.failure) return;
    {
      const std::lock_guard lock(mutex);
      for (const auto& batch : ready.microbatches) digests[rank].push_back(batch->digest);
      ++steps[rank];
    }
    changed.notify_all();
    running->consumed(rank, ready.step, ready.plan->versions.tree);
  };
  host::HostSeams seams;
  seams.executor = &executor;
  seams.storage = scenario.objects.get();
  seams.clock = &clock;
  seams.journal = &journal;
  seams.pool = runtime::BufferPool::make(64 << 20);
  seams.encoder = [&](const model::Source&) { return &encoder; };
  host::RoleHost host(std::move(start), std::move(seams));
  running = &host;
  host.start();
  uint32_t generation = 1;
  for (StepIndex step = 1; step <= kSteps; ++step) {
    {
      std::unique_lock lock(mutex);
      ASSERT_TRUE(changed.wait_for(lock, std::chrono::minutes(2),
                                   [&] { return steps[0] >= step && steps[1] >= step; }))
          << "hangs at step " << step;
    }
    const Address role = protocol::loader_address(static_cast<SourceIndex>(step % 3), step % 2);
    host.retire(role);
    host.add(role, ++generation);
  }
  host.stop();
  executor.shutdown();
  for (const Rank rank : scenario.all_ranks()) {
    const auto& batches = quiet->delivered(rank).batches;
    ASSERT_GE(digests[rank].size(), batches.size());
    for (size_t i = 0; i < batches.size(); ++i) ASSERT_EQ(digests[rank][i], batches[i]->digest);
  }
}

}  // namespace coming_and_going_test
}  // namespace overlord::sim
