// Resume: from any point, on any mesh, the stream goes on as if it had never stopped; the journal
// folds to the live state; what does not fit is refused with its name.
#include <gtest/gtest.h>

#include "overlord/protocol/journal/journal_record.h"
#include "overlord/sim/scenario.h"
#include "simulation/checkers/durable_first.h"

namespace overlord::sim {
namespace resume_test {

constexpr uint64_t kSteps = 8;

std::vector<Digest> digests(const Delivered& delivered) {
  std::vector<Digest> out;
  for (const auto& batch : delivered.batches) out.push_back(batch->digest);
  return out;
}

// Through bytes, as a checkpoint would.
protocol::ResumeState saved(const protocol::ResumeState& state) {
  auto decoded = protocol::decode_resume_state(protocol::encode_resume_state(state));
  EXPECT_TRUE(decoded.ok()) << decoded.status().message();
  return *decoded;
}

class ResumePacking : public ::testing::TestWithParam<model::Packing> {};

TEST_P(ResumePacking, ResumesAtEveryMicrobatch) {
  Scenario scenario = Scenario::small();
  scenario.spec.packing.method = GetParam();
  scenario.spec.max_steps = kSteps;
  auto whole = scenario.start(1);
  ASSERT_TRUE(whole->run(kSteps));
  const std::vector<Digest> expected = digests(whole->delivered(1));
  for (size_t stop = 0; stop <= expected.size(); ++stop) {
    auto before = scenario.resume(host::start_state(*scenario.open()), 10 + stop, {1});
    ASSERT_TRUE(stop == 0 || before->take(1, stop)) << "hangs before " << stop;
    auto after = scenario.resume(saved(before->consumer(1).state()), 50 + stop, {1});
    ASSERT_TRUE(after->run(kSteps));
    std::vector<Digest> got = digests(before->delivered(1));
    for (const Digest& digest : digests(after->delivered(1))) got.push_back(digest);
    ASSERT_EQ(got, expected) << "stopped after " << stop << " microbatches";
    EXPECT_EQ(after->consumer(1).content_chain(), whole->consumer(1).content_chain());
    EXPECT_EQ(after->consumer(1).plan_chain(), whole->consumer(1).plan_chain());
  }
}

INSTANTIATE_TEST_SUITE_P(Packing, ResumePacking,
                         ::testing::Values(model::Packing::kBestFit, model::Packing::kConcat,
                                           model::Packing::kPad));

TEST(Resume, AnotherMeshHoldsTheSameSteps) {
  Scenario scenario = Scenario::small();
  auto whole = scenario.start(1);
  ASSERT_TRUE(whole->run(kSteps));
  Scenario other = Scenario::small();
  other.axes = {{"pp", 2}, {"dp", 4}, {"tp", 2}};
  for (auto& source : other.spec.sources) source.loaders = 3;
  auto before = scenario.start(2);
  ASSERT_TRUE(before->run(3));
  auto after = other.resume(saved(before->consumer(0).state()), 3);
  ASSERT_TRUE(after->run(kSteps - 3));
  EXPECT_EQ(after->consumer(0).content_chain(), whole->consumer(0).content_chain());
}

TEST(Resume, StateIsTheSameOnEveryRankAtAStepBoundary) {
  Scenario scenario = Scenario::small();
  scenario.axes = {{"pp", 3}, {"dp", 2}, {"tp", 2}};
  auto cluster = scenario.start(4);
  ASSERT_TRUE(cluster->run(4));
  const std::string first = protocol::encode_resume_state(cluster->consumer(0).state());
  for (const Rank rank : cluster->ranks()) {
    EXPECT_EQ(protocol::encode_resume_state(cluster->consumer(rank).state()), first);
  }
}

TEST(Resume, OtherDataOrConfigIsRefusedByName) {
  Scenario scenario = Scenario::small();
  auto cluster = scenario.start(1);
  ASSERT_TRUE(cluster->run(2));
  const protocol::ResumeState state = cluster->consumer(0).state();
  Scenario context = Scenario::small();
  context.spec.context = 256;
  auto refused = host::resume_from(*context.open(), state, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), Code::kStateMismatch);
  EXPECT_NE(refused.status().message().find("config stream"), std::string::npos);
  Scenario weights = Scenario::small();
  weights.spec.mixture.stages[0].weights[0] *= 2;
  EXPECT_FALSE(host::resume_from(*weights.open(), state, {}).ok());
  EXPECT_TRUE(host::resume_from(*weights.open(), state, {true, false}).ok());
}

TEST(Resume, ASourceMayLeaveByDeclaration) {
  Scenario scenario = Scenario::small();
  auto cluster = scenario.start(1);
  ASSERT_TRUE(cluster->run(3));
  const protocol::ResumeState state = cluster->consumer(0).state();
  Scenario fewer = Scenario::small();
  fewer.spec.sources.erase(fewer.spec.sources.begin() + 1);
  fewer.spec.mixture.stages[0].weights.erase(fewer.spec.mixture.stages[0].weights.begin() + 1);
  fewer.corpora.erase(fewer.corpora.begin() + 1);
  const auto job = fewer.open();
  EXPECT_FALSE(host::resume_from(*job, state, {}).ok());
  auto adapted = host::resume_from(*job, state, {true, true});
  ASSERT_TRUE(adapted.ok()) << adapted.status().message();
  EXPECT_EQ(adapted->state.cursors[1], state.state.cursors[2]);
  SimCluster after(job, *fewer.objects, fewer.all_ranks(), fewer.options, *adapted, 9);
  EXPECT_TRUE(after.run(3));
}

TEST(Journal, FoldingItGivesTheLiveStateBack) {
  const Scenario scenario = Scenario::small();
  auto cluster = scenario.start(7);
  ASSERT_TRUE(cluster->run(5));
  const planner::PlannerState& live = cluster->host().planner_state();
  const auto durable = [&] { return live.uncommitted() == live.unplanned(); };
  ASSERT_TRUE(cluster->world().run_until(durable, 1'000'000));
  Digest content, plans;
  std::string state;
  StepIndex next = 0;
  for (const protocol::JournalRecord& record : cluster->journal().read()) {
    if (const auto* plan = std::get_if<protocol::PlanRecord>(&record)) {
      ASSERT_EQ(plan->step, next++);
      content = chain(content, plan->content_hash);
      plans = chain(plans, plan->plan_hash);
      state = plan->state_after;
    }
  }
  EXPECT_EQ(next, live.next_step());
  EXPECT_EQ(content, live.content_chain());
  EXPECT_EQ(plans, live.plan_chain());
  EXPECT_EQ(state, protocol::encode_stream_state(live.stream()));
}

TEST(Journal, NoPlanIsPublishedBeforeItIsDurable) {
  const Scenario scenario = Scenario::small();
  auto cluster = scenario.start(8);
  ASSERT_TRUE(cluster->run(4));
  EXPECT_EQ(checkers::durable_first(*cluster), checkers::kKept);
}

}  // namespace resume_test
}  // namespace overlord::sim
