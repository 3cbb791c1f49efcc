// Bad data, changed data and consumers that stop: named, bounded, never a hang.
#include <gtest/gtest.h>

#include "overlord/sim/scenario.h"
#include "simulation/checkers/same_end.h"
#include "simulation/seeds.h"

namespace overlord::sim {
namespace trouble_test {

// Breaks the given lines of the JSONL source "beta" (one shard) before it is indexed.
Scenario with_bad_lines(uint32_t bad_lines, uint32_t allowed) {
  Scenario scenario = Scenario::small();
  model::Source& source = scenario.spec.sources[1];
  const std::string uri = source.files[0];
  const auto whole = scenario.objects->stat(uri);
  std::string text;
  {
    const auto bytes = scenario.objects->read_blocking(
        {uri, 0, whole->fingerprint.size_bytes, whole->fingerprint});
    text.assign(bytes->data, bytes->size);
  }
  size_t at = 0;
  for (uint32_t line = 0; line < bad_lines; ++line) {
    text[at] = '[';  // no object any more
    at = text.find('\n', at) + 1;
  }
  scenario.objects->put(uri, text);
  source.bad_rows_allowed = allowed;
  return scenario;
}

TEST(Quarantine, BadRowsKeepTheirPlaceAndAreCounted) {
  Scenario scenario = with_bad_lines(3, 3);
  for (model::Source& source : scenario.spec.sources) source.at_end = model::EndPolicy::kDrop;
  auto cluster = scenario.start(1);
  ASSERT_TRUE(cluster->run(100'000));
  EXPECT_FALSE(cluster->failure()) << cluster->failure()->message();
  EXPECT_EQ(cluster->consumer(0).state().state.cursors[1].bad, 3u);
  EXPECT_EQ(cluster->quarantine().size(), 3u);
  for (const auto& note : cluster->quarantine()) {
    EXPECT_NE(note.reason.find("beta"), std::string::npos) << note.reason;
  }
}

TEST(Quarantine, AnExceededBudgetEndsAllRanksBeforeTheSameStep) {
  std::optional<size_t> expected;
  const Scenario scenario = with_bad_lines(3, 2);
  for_each_seed({20}, [&](uint64_t seed) {
    auto cluster = scenario.start(seed);
    ASSERT_TRUE(cluster->run(100'000)) << "hangs";
    ASSERT_EQ(checkers::same_end(*cluster, Code::kBudgetExceeded), checkers::kKept);
    EXPECT_NE(cluster->failure()->message().find("beta"), std::string::npos);
    for (const Rank rank : cluster->ranks()) {
      const size_t batches = cluster->delivered(rank).batches.size();
      if (!expected) expected = batches;
      EXPECT_EQ(batches, *expected);
    }
  });
}

TEST(Trouble, AChangedShardStopsTheRunByName) {
  Scenario scenario = Scenario::small();
  scenario.options.payload_budget_bytes = 1;  // nothing is kept: every step reads
  auto cluster = scenario.start(2);
  ASSERT_TRUE(cluster->run(1));
  for (const std::string& uri : scenario.spec.sources[0].files) {
    scenario.objects->put(uri, "something else");
  }
  ASSERT_TRUE(cluster->run(100'000)) << "hangs";
  ASSERT_TRUE(cluster->failure().has_value());
  EXPECT_EQ(cluster->failure()->code(), Code::kSourceChanged);
  EXPECT_NE(cluster->failure()->message().find("alpha"), std::string::npos);
}

TEST(Trouble, AConsumerThatStopsBoundsEverythingBehindIt) {
  Scenario scenario = Scenario::small();
  scenario.options.prefetch_steps = 2;
  scenario.options.runway = 3;
  auto cluster = scenario.start(3);
  ASSERT_TRUE(cluster->run(2));
  // Nobody reads any more: the world must come to rest by itself.
  EXPECT_FALSE(cluster->world().run_until([] { return false; }, 1'000'000));
  const planner::PlannerState& state = cluster->host().planner_state();
  EXPECT_LE(state.next_step(), 2 + 3 + 1 + SlowJournal::kPlansAhead);
  for (const auto& [address, probe] : cluster->host().constructors()) {
    EXPECT_LE(probe->steps_held, 2 + 1 + 1u);
  }
  EXPECT_LE(cluster->host().budget().used_bytes, cluster->host().budget().limit_bytes);
  // And it goes on when somebody does.
  EXPECT_TRUE(cluster->run(5));
}

TEST(Trouble, AStaleEnvelopeIsRefusedEverywhere) {
  const Scenario scenario = Scenario::small();
  const auto job = scenario.open();
  auto undisturbed = scenario.start(4);
  ASSERT_TRUE(undisturbed->run(3));
  auto cluster = scenario.start(4);
  for (const protocol::Address& to :
       {protocol::planner_address(), protocol::loader_address(0, 0),
        protocol::constructor_address(0), protocol::client_address(0)}) {
    protocol::Envelope stale;
    stale.versions.attempt = 99;
    stale.from = protocol::planner_address();
    stale.to = to;
    stale.message = protocol::StreamFailed{0, Status(Code::kInternal, "from another life")};
    cluster->host().deliver(stale);
  }
  ASSERT_TRUE(cluster->run(3));
  EXPECT_FALSE(cluster->failure());
  EXPECT_EQ(cluster->stream_hash(), undisturbed->stream_hash());
}

// Versions of a tree, a mixture or an owner map that move on one side alone: plans carry theirs.
TEST(Trouble, AVersionThatMovesFencesNobody) {
  const Scenario scenario = Scenario::small();
  auto undisturbed = scenario.start(4);
  ASSERT_TRUE(undisturbed->run(3));
  auto cluster = scenario.start(4);
  cluster->transport().on_the_way = [&](protocol::Envelope envelope) {
    ++envelope.versions.tree;
    ++envelope.versions.mixture;
    ++envelope.versions.owner_map;
    return envelope;
  };
  ASSERT_TRUE(cluster->run(3));
  EXPECT_EQ(cluster->stream_hash(), undisturbed->stream_hash());
}

}  // namespace trouble_test
}  // namespace overlord::sim
