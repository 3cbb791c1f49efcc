#include "overlord/roles/planner/owners.h"

#include <gtest/gtest.h>

namespace overlord::planner {
namespace owners_test {

PlannerJob growing_job() {
  PlannerJob job;
  job.spec.sources.resize(2);
  job.spec.mixture.stages.resize(1);
  job.spec.mixture.stages[0].weights = {1, 3};
  job.slots = {2, 1};
  job.most_slots = {8, 1};
  job.source_rows = {100, 100};
  return job;
}

PlannerState state_at_start() {
  model::StreamState stream;
  stream.cursors.resize(2);
  return PlannerState(stream, {10, 0}, {0});
}

protocol::OwnersRecord change(const PlannerJob& job, PlannerState* state, uint32_t slots) {
  Reaction out;
  wish_slots(job, *state, 0, slots, "for a test", &out);
  for (const Event& event : out.events) state->apply(event);
  EXPECT_EQ(out.effects.size(), 1u);
  return std::get<JournalOwners>(out.effects.front()).record;
}

size_t grants_in(const Reaction& reaction) {
  size_t grants = 0;
  for (const Effect& effect : reaction.effects) {
    const auto* send = std::get_if<Send>(&effect);
    grants += send && std::holds_alternative<protocol::MetaGrant>(send->message) ? 1 : 0;
  }
  return grants;
}

TEST(PlannerOwners, AChangeCountsFromTheFirstWindowThatIsNotGranted) {
  const PlannerJob job = growing_job();
  PlannerState state = state_at_start();
  state.apply(GrantRaised{0, 14});
  const protocol::OwnersRecord grown = change(job, &state, 5);
  EXPECT_EQ(grown.owners.ranges, (std::vector<model::OwnerRange>{{0, 2}, {14, 5}}));
  EXPECT_EQ(grown.versions.owner_map, 2u);
  state.apply(OwnersChanged{grown});
  EXPECT_EQ(newest_slots(job, state, 0), 5u);
  EXPECT_EQ(change(job, &state, 99).owners.ranges.back(), (model::OwnerRange{14, 8}))
      << "nothing was granted in between, and there are no more than eight";
}

TEST(PlannerOwners, NothingOfTheSourceIsGrantedUntilTheChangeIsDurable) {
  const PlannerJob job = growing_job();
  PlannerState state = state_at_start();
  const protocol::OwnersRecord grown = change(job, &state, 3);
  for (const Event& event : on_start(job, state).events) state.apply(event);
  EXPECT_EQ(state.grant(0), 10u);
  EXPECT_EQ(state.grant(1), 1u) << "others go on";
  Reaction again;
  wish_slots(job, state, 0, 4, "too", &again);
  EXPECT_TRUE(again.effects.empty()) << "one at a time";
  state.apply(OwnersChanged{grown});
  EXPECT_EQ(grants_in(on_start(job, state)), 3u) << "every slot is granted";
}

TEST(PlannerOwners, RangesThatNoPlanGoesByAreForgotten) {
  const PlannerJob job = growing_job();
  PlannerState state = state_at_start();
  state.apply(GrantRaised{0, 12});
  state.apply(OwnersChanged{change(job, &state, 4)});
  state.apply(GrantRaised{0, 14});
  model::StreamState base = state.stream();
  base.cursors[0] = {.pass = 1, .position = 40};
  EXPECT_TRUE(forgettable(state, base).empty()) << "where its windows begin is not known yet";
  auto window = std::make_shared<model::MetaWindow>();
  window->first = {0, 1, 40};
  window->tokens = {5, 5};
  state.apply(MetaArrived{12, window});
  base.cursors[0].position = 39;
  EXPECT_TRUE(forgettable(state, base).empty());
  base.cursors[0].position = 40;
  base.carried.emplace_back().id = {0, 0, 7};
  EXPECT_TRUE(forgettable(state, base).empty()) << "a document of before is still to come";
  base.carried.clear();
  ASSERT_EQ(forgettable(state, base).size(), 1u);
  EXPECT_EQ(forgettable(state, base)[0].owners.ranges, (std::vector<model::OwnerRange>{{12, 4}}));
}

}  // namespace owners_test
}  // namespace overlord::planner
