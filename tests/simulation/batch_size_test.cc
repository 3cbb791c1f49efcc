// How many bins a step has changes by a schedule, or by declaration at a resume: the stream goes on
// exactly, on any mesh, and refuses what does not fit.
#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "overlord/sim/scenario.h"

namespace overlord::sim {
namespace batch_size_test {

constexpr uint64_t kSteps = 8;

Scenario staged() {
  Scenario scenario = Scenario::small();
  scenario.spec.max_steps = kSteps;
  scenario.spec.bins = 4;
  scenario.spec.later_bins = {{2, 8}, {5, 2}, {7, 16}};
  return scenario;
}

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

TEST(BatchSize, AScheduleResumesAtEveryMicrobatch) {
  const Scenario scenario = staged();
  auto whole = scenario.start(1);
  ASSERT_TRUE(whole->run(kSteps));
  const std::vector<Digest> expected = digests(whole->delivered(1));
  ASSERT_EQ(expected.size(), (2 * 4 + 3 * 8 + 2 * 2 + 16) / 2u);
  EXPECT_EQ(whole->consumer(1).state().state.totals.sequences, 2 * expected.size());
  for (size_t stop = 0; stop <= expected.size(); ++stop) {
    auto before = scenario.resume(host::start_state(*scenario.open()), 10 + stop, {1});
    ASSERT_TRUE(stop == 0 || before->take(1, stop)) << "hangs before " << stop;
    auto after = scenario.resume(saved(before->consumer(1).state()), 50 + stop, {1});
    ASSERT_TRUE(after->run(kSteps));
    std::vector<Digest> got = digests(before->delivered(1));
    for (const Digest& digest : digests(after->delivered(1))) got.push_back(digest);
    ASSERT_EQ(got, expected) << "stopped after " << stop << " microbatches";
    EXPECT_EQ(after->consumer(1).plan_chain(), whole->consumer(1).plan_chain());
    EXPECT_EQ(after->consumer(1).state().state.totals, whole->consumer(1).state().state.totals);
  }
}

TEST(BatchSize, AScheduleHoldsTheSameOnAnotherMesh) {
  Scenario scenario = staged();
  auto whole = scenario.start(1);
  ASSERT_TRUE(whole->run(kSteps));
  auto before = scenario.start(2);
  ASSERT_TRUE(before->run(4));
  Scenario other = staged();
  other.axes = {{"pp", 2}, {"dp", 1}, {"tp", 2}};
  auto after = other.resume(saved(before->consumer(0).state()), 3);
  ASSERT_TRUE(after->run(kSteps - 4));
  EXPECT_EQ(after->consumer(0).content_chain(), whole->consumer(0).content_chain());
}

TEST(BatchSize, EveryStageMustFitTheMesh) {
  Scenario scenario = staged();
  scenario.axes = {{"dp", 4}};
  const auto mesh = model::Mesh::make(scenario.axes);
  const auto job = open_in_memory(scenario.spec, scenario.delivery, *mesh, *scenario.objects, true);
  ASSERT_FALSE(job.ok());
  EXPECT_NE(job.status().message().find("got 2 from step 5 on; nearest 4"), std::string::npos)
      << job.status().message();
}

using Token = std::tuple<uint32_t, uint32_t, uint64_t, uint32_t>;  // source, pass, position, token

void add_tokens(const Delivered& delivered, std::multiset<Token>* out) {
  for (const auto& batch : delivered.batches) {
    for (const model::LineageRow& row : batch->core->lineage) {
      for (uint32_t t = row.first; t < row.first + row.count; ++t) {
        out->emplace(row.id.source, row.id.pass, row.id.position, t);
      }
    }
  }
}

TEST(BatchSize, ADeclaredChangeLosesAndRepeatsNothing) {
  Scenario scenario = Scenario::small();
  scenario.axes = {{"dp", 1}};
  for (model::Source& source : scenario.spec.sources) source.at_end = model::EndPolicy::kDrop;
  std::multiset<Token> expected, got;
  auto whole = scenario.start(1);
  ASSERT_TRUE(whole->run(1000));
  add_tokens(whole->delivered(0), &expected);
  auto before = scenario.start(2);
  ASSERT_TRUE(before->run(3));
  add_tokens(before->delivered(0), &got);
  const protocol::ResumeState state = saved(before->consumer(0).state());
  Scenario larger = scenario;
  larger.spec.bins = 16;
  larger.delivery.microbatch_size = 4;
  const auto job = larger.open();
  const auto refused = host::resume_from(*job, state, {});
  EXPECT_NE(refused.status().message().find("allow=(\"batch\",)"), std::string::npos);
  protocol::AllowedChanges allowed;
  allowed.batch = true;
  auto adapted = host::resume_from(*job, state, allowed);
  ASSERT_TRUE(adapted.ok()) << adapted.status().message();
  SimCluster after(job, *larger.objects, {0}, larger.options, *adapted, 4);
  ASSERT_TRUE(after.run(1000));
  add_tokens(after.delivered(0), &got);
  EXPECT_EQ(got, expected);
  EXPECT_EQ(after.delivered(0).batches.front()->core->step, 3u);

  // Nothing else of the stream may differ, nor the bins of a step that has begun.
  Scenario other = larger;
  other.spec.align = 2;
  EXPECT_FALSE(host::resume_from(*other.open(), state, allowed).ok());
  ASSERT_TRUE(before->take(0, 1));
  EXPECT_FALSE(host::resume_from(*job, saved(before->consumer(0).state()), allowed).ok());
}

}  // namespace batch_size_test
}  // namespace overlord::sim
