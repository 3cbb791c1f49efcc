// Hybrid data parallelism in a whole job: ranks with different numbers of microbatches hold the
// same steps as without it, end them together, and go on from any point.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "overlord/sim/scenario.h"
#include "simulation/storms.h"

namespace overlord::sim {
namespace hybrid_test {

constexpr uint64_t kSteps = 6;

Scenario hybrid_scenario() {
  Scenario scenario = Scenario::small();
  scenario.axes = {{"pp", 1}, {"dp", 2}, {"cp", 3}, {"tp", 2}};
  scenario.spec.max_steps = kSteps;
  scenario.options.hash_batches = true;
  model::Strategy& strategy = scenario.spec.strategy;
  strategy.axis = "cp";
  strategy.atoms = model::Atoms::kSlices;
  strategy.hdp.model.square_fs = 90'000;
  strategy.hdp.model.token_fs = 2'000'000'000;
  strategy.hdp.model.layers = 4;
  strategy.hdp.model.capacity = scenario.spec.context / 4;
  return scenario;
}

std::vector<Digest> digests(const Delivered& delivered) {
  std::vector<Digest> out;
  for (const auto& batch : delivered.batches) out.push_back(batch->digest);
  return out;
}

TEST(Hybrid, HoldsTheStepsOfAJobWithoutItWhateverTheTimes) {
  const Scenario scenario = hybrid_scenario();
  Scenario plain = hybrid_scenario();
  plain.spec.strategy = {};
  plain.axes = {{"dp", 2}};
  auto whole = plain.start(1);
  ASSERT_TRUE(whole->run(kSteps));
  std::set<std::string> hashes;
  for (uint64_t seed = 1; seed < 4; ++seed) {
    auto cluster = scenario.start(seed);
    ASSERT_TRUE(cluster->run(kSteps));
    EXPECT_EQ(cluster->consumer(0).content_chain(), whole->consumer(0).content_chain());
    hashes.insert(cluster->stream_hash().hex());
  }
  EXPECT_EQ(hashes.size(), 1u);
}

// Each constructor is told its slices alone, by the numbers that they have in the whole plan.
TEST(Hybrid, TheSameWhereRolesLiveInProcessesOfTheirOwn) {
  const Scenario scenario = hybrid_scenario();
  auto whole = scenario.start(1);
  ASSERT_TRUE(whole->run(kSteps));
  Layout layout;
  layout.split = true;
  auto apart = start(scenario, scenario.open(), 2, layout);
  apart->keep_batches = true;
  ASSERT_TRUE(apart->run(kSteps));
  EXPECT_EQ(apart->stream_hash(), whole->stream_hash());
  for (const Rank rank : whole->ranks()) {
    const auto& got = apart->delivered(rank).batches;
    const auto& expected = whole->delivered(rank).batches;
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i]->core->hdp_bin, expected[i]->core->hdp_bin);
      EXPECT_GT(got[i]->core->hdp->shares.size(), got[i]->core->hdp_bin) << "the client's plan";
    }
  }
}

TEST(Hybrid, EveryTokenOfAStepLiesOnOneConsumer) {
  const Scenario scenario = hybrid_scenario();
  auto cluster = scenario.start(3);
  ASSERT_TRUE(cluster->run(kSteps));
  std::map<StepIndex, std::map<SampleId, std::map<uint32_t, uint32_t>>> held;  // first -> count
  std::map<StepIndex, uint64_t> targets, expected;
  std::set<size_t> counts;
  for (Rank rank = 0; rank < 12; rank += 2) {  // one of the two tp peers
    counts.insert(cluster->delivered(rank).batches.size());
    for (const auto& batch : cluster->delivered(rank).batches) {
      const model::MicrobatchCore& core = *batch->core;
      const auto* positions = static_cast<const int32_t*>(batch->slab->positions.data);
      const model::HdpShare& share = core.hdp->shares[core.hdp_bin];
      targets[core.step] += core.boundaries.target_tokens;
      expected[core.step] = core.step_target_tokens;
      for (size_t i = 0; i < core.lineage.size(); ++i) {
        const model::LineageRow& row = core.lineage[i];
        ASSERT_TRUE(held[core.step][row.id].emplace(row.first, row.count).second);
        const uint32_t offset = core.hdp->parts[share.first_part + i].offset;
        ASSERT_EQ(positions[core.boundaries.cu_seqlens_padded[i]], static_cast<int32_t>(offset));
      }
    }
  }
  EXPECT_EQ(targets, expected);
  EXPECT_GT(counts.size(), 1u) << "the scenario should give ranks different numbers";
  for (const auto& [step, samples] : held) {
    for (const auto& [id, parts] : samples) {
      uint32_t next = parts.begin()->first;
      for (const auto& [first, count] : parts) {
        ASSERT_EQ(first, next) << "step " << step;
        next = first + count;
      }
    }
  }
}

TEST(Hybrid, GoesOnFromEveryMicrobatchOfARank) {
  const Scenario scenario = hybrid_scenario();
  auto whole = scenario.start(1);
  ASSERT_TRUE(whole->run(kSteps));
  for (const Rank rank : {Rank{0}, Rank{5}}) {
    const std::vector<Digest> expected = digests(whole->delivered(rank));
    for (size_t stop = 0; stop <= expected.size(); ++stop) {
      auto before = scenario.resume(host::start_state(*scenario.open()), 10 + stop, {rank});
      ASSERT_TRUE(stop == 0 || before->take(rank, stop));
      auto after = scenario.resume(before->consumer(rank).state(), 50 + stop, {rank});
      ASSERT_TRUE(after->run(kSteps));
      std::vector<Digest> got = digests(before->delivered(rank));
      for (const Digest& digest : digests(after->delivered(rank))) got.push_back(digest);
      ASSERT_EQ(got, expected) << "rank " << rank << " stopped after " << stop;
    }
  }
}

TEST(Hybrid, AStateOfAnotherRankInsideAStepIsNotPassedOver) {
  const Scenario scenario = hybrid_scenario();
  protocol::ResumeState state = host::start_state(*scenario.open());
  state.microbatch = 1000;
  auto cluster = scenario.resume(state, 1, {2});
  cluster->run(1);
  ASSERT_TRUE(cluster->consumer(2).failure().has_value());
  EXPECT_EQ(cluster->consumer(2).failure()->code(), Code::kStateMismatch);
}

TEST(Hybrid, StateIsTheSameOnEveryRankAtAStepBoundary) {
  const Scenario scenario = hybrid_scenario();
  auto cluster = scenario.start(4);
  ASSERT_TRUE(cluster->run(3));
  const std::string first = protocol::encode_resume_state(cluster->consumer(0).state());
  for (const Rank rank : cluster->ranks()) {
    EXPECT_EQ(protocol::encode_resume_state(cluster->consumer(rank).state()), first);
  }
}

}  // namespace hybrid_test
}  // namespace overlord::sim
