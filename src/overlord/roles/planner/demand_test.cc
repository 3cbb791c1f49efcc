#include "overlord/roles/planner/demand.h"

#include <gtest/gtest.h>

#include "overlord/roles/planner/owners.h"

namespace overlord::planner {
namespace demand_test {

constexpr int64_t kSecond = 1'000'000'000;
constexpr StepIndex kTurn = 30;

// A source that needs work, and one that needs little; the mixture turns to the first.
PlannerJob turning_job() {
  PlannerJob job;
  job.spec.context = 1000;
  job.spec.bins = 10;
  job.spec.sources.resize(2);
  job.spec.mixture.stages.resize(2);
  job.spec.mixture.stages[0].weights = {1, 19};
  job.spec.mixture.stages[1].first_step = kTurn;
  job.spec.mixture.stages[1].weights = {9, 1};
  job.slots = {1, 1};
  job.most_slots = {16, 16};
  job.source_rows = {100, 100};
  job.runway = 4;
  return job;
}

PlannerState state_at(StepIndex step) {
  model::StreamState stream;
  stream.next_step = step;
  stream.cursors.resize(2);
  return PlannerState(stream, {0, 0}, {0});
}

// A run that has made a window of 20,000 tokens in so many seconds, and told so.
void measure(PlannerState* state, SourceIndex source, int64_t seconds) {
  auto window = std::make_shared<model::MetaWindow>();
  window->first = {source, 0, 0};
  window->tokens.assign(20, 1000);
  state->apply(GrantRaised{source, 1});
  state->apply(MetaArrived{0, window});
  state->apply(
      LoadMeasured{protocol::loader_address(source, 0), static_cast<uint64_t>(seconds * kSecond)});
}

std::vector<protocol::OwnersRecord> records_in(const Reaction& reaction) {
  std::vector<protocol::OwnersRecord> out;
  for (const Effect& effect : reaction.effects) {
    if (const auto* owners = std::get_if<JournalOwners>(&effect)) out.push_back(owners->record);
  }
  return out;
}

TEST(PlannerDemand, SlotsGrowAsSoonAsATurnIsInSight) {
  const PlannerJob job = turning_job();
  Demand demand(job);
  PlannerState before = state_at(kTurn - 1 - steps_foreseen(job));
  measure(&before, 0, 4);
  EXPECT_TRUE(records_in(demand.foresee(before)).empty()) << "nothing turns within what is seen";
  PlannerState state = state_at(kTurn - steps_foreseen(job));
  measure(&state, 0, 4);
  measure(&state, 1, 1);
  const std::vector<protocol::OwnersRecord> grown = records_in(demand.foresee(state));
  ASSERT_EQ(grown.size(), 1u) << "nothing turns to the other";
  EXPECT_EQ(grown[0].owners.source, 0u);
  EXPECT_EQ(grown[0].owners.ranges.back().slots, 16u);
  EXPECT_EQ(grown[0].reason,
            "step 30 asks 900 thousandths of it, after 50 now: 972 thousandths of a step's work, "
            "and no step has been timed yet: 16 slots");
  EXPECT_EQ(plan::decide(grown[0].inputs).slots, 16u) << "as journalled";
}

TEST(PlannerDemand, AProfileOfTheRunBeforeIsEnoughAtTheStart) {
  PlannerJob job = turning_job();
  job.spec.mixture.stages[1].first_step = 3;
  Demand blind(job);
  EXPECT_TRUE(records_in(blind.foresee(state_at(0))).empty()) << "nobody knows what it costs";
  job.spec.sources[0].measured = {.elapsed_ns = 9, .work_ns = 700, .documents = 1, .tokens = 10};
  job.spec.sources[1].measured = {.elapsed_ns = 9, .work_ns = 10, .documents = 1, .tokens = 10};
  Demand demand(job);
  const std::vector<protocol::OwnersRecord> grown = records_in(demand.foresee(state_at(0)));
  ASSERT_EQ(grown.size(), 1u);
  EXPECT_EQ(grown[0].owners.ranges.back().slots, 16u);
  EXPECT_EQ(grown[0].inputs.step, 3u);
}

TEST(StepPace, IsKnownOnceTwoStepsAreConsumed) {
  StepPace pace;
  pace.note(0, kSecond);
  pace.note(1, 5 * kSecond);
  EXPECT_EQ(pace.step_ns(), 0u) << "how long the start took says nothing";
  pace.note(1, 6 * kSecond);
  pace.note(3, 7 * kSecond);
  EXPECT_EQ(pace.step_ns(), 1'000'000'000u);
  pace.note(4, 9 * kSecond);
  EXPECT_EQ(pace.step_ns(), 1'300'000'000u) << "the newest counts three tenths";
}

TEST(PlannerDemand, MetadataForATurnIsWantedBeforeItComes) {
  PlannerJob job = turning_job();
  job.most_slots = job.slots;
  Demand demand(job);
  PlannerState state = state_at(kTurn - 2);
  measure(&state, 0, 0);
  for (const Event& event : demand.foresee(state).events) state.apply(event);
  EXPECT_EQ(state.step_rows(0), 10u) << "9,000 tokens of 1,000 each, and one to begin with";
  EXPECT_EQ(state.step_rows(1), 0u);
}

TEST(PlannerDemand, AMixtureThatDoesNotTurnIsLeftToWhatIsMeasured) {
  PlannerJob job = turning_job();
  job.spec.mixture.stages.resize(1);
  Demand demand(job);
  PlannerState state = state_at(0);
  measure(&state, 0, 4);
  EXPECT_TRUE(demand.foresee(state).effects.empty());
}

TEST(PlannerDemand, FollowsWhatSlotsTellAndWritesDownWhy) {
  PlannerJob job = turning_job();
  job.spec.mixture.stages.resize(1);
  job.slots = {2, 1};
  job.most_slots = {8, 1};
  for (const bool advise_only : {false, true}) {
    job.scaling.advise_only = advise_only;
    Demand demand(job);
    PlannerState state = state_at(0);
    state.apply(GrantRaised{0, 5});
    EXPECT_TRUE(demand.heard(state, kSecond).effects.empty()) << "an interval begins";
    state.apply(LoadMeasured{protocol::loader_address(0, 0), kSecond});
    state.apply(LoadMeasured{protocol::loader_address(0, 1), kSecond});
    state.apply(LoadMeasured{protocol::loader_address(1, 0), 9 * kSecond});
    const Reaction looked = demand.heard(state, 2 * kSecond);
    const std::vector<protocol::OwnersRecord> records = records_in(looked);
    ASSERT_EQ(records.size(), 1u) << "the other source is not declared to grow";
    EXPECT_EQ(records[0].owners.source, 0u);
    EXPECT_EQ(records[0].owners.ranges.back().slots, advise_only ? 2u : 4u);
    EXPECT_EQ(records[0].advised, advise_only ? 4u : 0u);
    EXPECT_EQ(records[0].reason,
              "2.0 of 2 workers busy, asked for 50 thousandths and 50 soon: 4 slots");
    EXPECT_EQ(plan::decide(records[0].inputs).slots, 4u) << "deciding again gives the same";
    for (const Event& event : looked.events) state.apply(event);
    state.apply(OwnersChanged{records[0]});
    EXPECT_EQ(newest_slots(job, state, 0), advise_only ? 2u : 4u);
    EXPECT_EQ(state.busy_ns(0), 0u) << "the next interval begins";
  }
}

}  // namespace demand_test
}  // namespace overlord::planner
