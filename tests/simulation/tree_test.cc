// The place tree rebuilt while a job runs: journalled first, effective at a step boundary; the
// stream goes on, its content as if nothing had happened.
#include <gtest/gtest.h>

#include "overlord/protocol/journal_record.h"
#include "overlord/sim/scenario.h"

namespace overlord::sim {
namespace {

constexpr uint64_t kSteps = 12;

struct Journal {
  std::vector<protocol::PlanRecord> plans;
  std::vector<protocol::TreeRecord> trees;
  std::vector<StepIndex> plans_before;  // by tree record
};

Journal read(const SimCluster& cluster) {
  Journal out;
  for (const std::string& bytes : cluster.journal().records()) {
    const auto record = *protocol::decode_record(bytes);
    if (const auto* plan = std::get_if<protocol::PlanRecord>(&record)) out.plans.push_back(*plan);
    if (const auto* tree = std::get_if<protocol::TreeRecord>(&record)) {
      out.trees.push_back(*tree);
      out.plans_before.push_back(out.plans.size());
    }
  }
  return out;
}

Status rebuild(SimCluster& cluster, std::vector<model::Axis> axes) {
  std::optional<Status> verdict;
  cluster.host().rebuild_tree(*model::Mesh::make(std::move(axes)),
                              [&](const Status& status) { verdict = status; });
  EXPECT_TRUE(cluster.world().run_until([&] { return verdict.has_value(); }, 1'000'000));
  return verdict.value_or(Status(Code::kInternal, "no answer"));
}

TEST(Tree, ARebuildCountsFromAStepBoundaryOn) {
  Scenario scenario = Scenario::small();
  scenario.spec.max_steps = kSteps;
  auto plain = scenario.start(1);
  ASSERT_TRUE(plain->run(kSteps));
  const Journal expected = read(*plain);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    auto cluster = scenario.start(seed);
    ASSERT_TRUE(cluster->run(3));
    const Status status = rebuild(*cluster, {{"tp", 1}, {"dp", 2}, {"pp", 1}});
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_TRUE(cluster->run(kSteps)) << "hangs with seed " << seed;
    const Journal journal = read(*cluster);
    ASSERT_EQ(journal.trees.size(), 1u);
    const StepIndex first = journal.trees[0].first_step;
    EXPECT_GE(first, 3u);
    ASSERT_LT(first, kSteps);
    EXPECT_EQ(journal.trees[0].versions.tree, 2u);
    EXPECT_LE(journal.plans_before[0], first) << "a plan of the new tree before its record";
    ASSERT_EQ(journal.plans.size(), expected.plans.size());
    for (StepIndex step = 0; step < kSteps; ++step) {
      EXPECT_EQ(journal.plans[step].content_hash, expected.plans[step].content_hash) << step;
      EXPECT_EQ(journal.plans[step].plan_hash == expected.plans[step].plan_hash, step < first);
      EXPECT_EQ(journal.plans[step].versions.tree, step < first ? 1u : 2u);
    }
    EXPECT_EQ(cluster->consumer(0).content_chain(), plain->consumer(0).content_chain());
    for (const Rank rank : cluster->ranks()) {  // the seats are the same, so the bytes are
      const auto& got = cluster->delivered(rank).batches;
      const auto& want = plain->delivered(rank).batches;
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i]->digest, want[i]->digest);
    }
  }
}

TEST(Tree, AMeshThatSeatsRanksElsewhereIsRefusedWhileItRuns) {
  Scenario scenario = Scenario::small();
  scenario.axes = {{"dp", 2}, {"tp", 2}};
  auto cluster = scenario.start(1);
  ASSERT_TRUE(cluster->run(2));
  const Status status = rebuild(*cluster, {{"tp", 2}, {"dp", 2}});
  EXPECT_NE(status.message().find("resume from a state"), std::string::npos) << status.message();
  EXPECT_TRUE(read(*cluster).trees.empty());
  EXPECT_TRUE(cluster->run(2)) << "and the job goes on";
}

}  // namespace
}  // namespace overlord::sim
