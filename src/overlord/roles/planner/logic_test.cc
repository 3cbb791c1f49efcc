#include "overlord/roles/planner/logic.h"

#include <gtest/gtest.h>

namespace overlord::planner {
namespace {

using protocol::Address;

PlannerJob job_of_two_buckets() {
  PlannerJob job;
  job.spec.sources.resize(2);
  job.slots = job.most_slots = {2, 1};
  job.buckets = {0, 1};
  return job;
}

PlannerState state_of(StepIndex next_step) {
  model::StreamState stream;
  stream.next_step = next_step;
  stream.cursors.resize(2);
  return PlannerState(stream, {10, 0}, {0, 1});
}

model::PlanPtr plan_of(StepIndex step) {
  auto plan = std::make_shared<model::Plan>();
  plan->step = step;
  plan->layers.resize(1);
  auto after = std::make_shared<model::StreamState>();
  after->next_step = step + 1;
  after->cursors.resize(2);
  plan->state_after = std::move(after);
  return plan;
}

protocol::Envelope restarted(const Address& role, uint32_t generation) {
  protocol::Envelope envelope;
  envelope.from = role;
  envelope.versions.generation = generation;
  envelope.message = protocol::PeerRestarted{role, generation};
  return envelope;
}

MetaArrived window(uint64_t sequence) {
  auto meta = std::make_shared<model::MetaWindow>();
  meta->first = {0, 0, sequence * 4};
  meta->tokens = {5, 5, 5, 5};
  return {sequence, meta};
}

TEST(PlannerLogic, AWindowCountsOnceAndARestartedLoaderGoesOnAtTheFirstMissingOne) {
  const PlannerJob job = job_of_two_buckets();
  PlannerState state = state_of(0);
  state.apply(GrantRaised{0, 14});
  for (const uint64_t sequence : {10, 12, 10, 12}) state.apply(window(sequence));
  EXPECT_EQ(state.posted(0), 2u);
  EXPECT_EQ(state.meta()[0].rows(), 8u);
  state.apply(window(40));
  EXPECT_EQ(state.posted(0), 2u) << "nobody asked for it";
  const Reaction reaction = on_message(job, state, restarted(protocol::loader_address(0, 1), 2));
  ASSERT_EQ(reaction.effects.size(), 1u);
  const auto& grant = std::get<protocol::MetaGrant>(std::get<Send>(reaction.effects[0]).message);
  EXPECT_EQ(grant.first_window, 11u);
  EXPECT_EQ(grant.window_limit, 14u);
}

TEST(PlannerLogic, ARestartedConstructorIsToldWhatItHasNotAcknowledgedAndTheFailure) {
  const PlannerJob job = job_of_two_buckets();
  PlannerState state = state_of(3);
  for (StepIndex step = 3; step < 7; ++step) {
    state.apply(PlanMade{plan_of(step)});
    state.apply(PlanCommitted{step});
    state.apply(PlanReleased{step});
  }
  state.apply(ConstructorAcknowledged{protocol::constructor_address(0), 6});
  state.apply(ConstructorAcknowledged{protocol::constructor_address(1), 4});
  EXPECT_EQ(state.unacknowledged().size(), 3u) << "bucket 1 still needs 4, 5 and 6";
  EXPECT_EQ(on_message(job, state, restarted(protocol::constructor_address(0), 2)).effects.size(),
            2u);
  state.apply(Failed{7, Status(Code::kInternal, "x")});
  const Reaction reaction = on_message(job, state, restarted(protocol::constructor_address(1), 2));
  ASSERT_EQ(reaction.effects.size(), 5u);
  const auto& failed = std::get<Send>(reaction.effects[0]).message;
  EXPECT_EQ(std::get<protocol::StreamFailed>(failed).step, 7u);
  const auto& begin = std::get<Send>(reaction.effects[1]).message;
  EXPECT_EQ(std::get<protocol::Acknowledged>(begin).acknowledged, 4u) << "no plan before it comes";
  for (size_t i = 1; i < 4; ++i) {
    const auto& send = std::get<Send>(reaction.effects[i + 1]);
    EXPECT_EQ(send.to, protocol::constructor_address(1));
    EXPECT_EQ(std::get<protocol::PlanPublished>(send.message).plan->step, 3 + i);
  }
}

TEST(PlannerLogic, ALateBadRowIsJournalledOnceAndAnsweredEveryTime) {
  const PlannerJob job = job_of_two_buckets();
  PlannerState state = state_of(0);
  protocol::Envelope told;
  told.from = protocol::loader_address(0, 1);
  told.message = protocol::LateBad{2, {0, 0, 9}, "bad"};
  const Reaction first = on_message(job, state, told);
  ASSERT_EQ(first.effects.size(), 1u);
  EXPECT_EQ(std::get<JournalLateBad>(first.effects[0]).loader, told.from);
  for (const Event& event : first.events) state.apply(event);
  EXPECT_TRUE(on_message(job, state, told).effects.empty()) << "on its way to the journal";
  state.apply(LateBadCommitted{{0, 0, 9}});
  const Reaction again = on_message(job, state, told);
  ASSERT_EQ(again.effects.size(), 1u);
  EXPECT_EQ(std::get<Send>(again.effects[0]).to, told.from);
  EXPECT_EQ(state.late_bad(0), 1u);
}

TEST(PlannerLogic, RefusesWhatADeadGenerationSays) {
  const PlannerJob job = job_of_two_buckets();
  PlannerState state = state_of(0);
  const Address constructor = protocol::constructor_address(0);
  for (const Event& event : on_message(job, state, restarted(constructor, 2)).events) {
    state.apply(event);
  }
  protocol::Envelope late;
  late.from = constructor;
  late.message = protocol::Acknowledged{0};
  EXPECT_TRUE(on_message(job, state, late).events.empty());
  late.versions.generation = 2;
  EXPECT_FALSE(on_message(job, state, late).events.empty());
}

}  // namespace
}  // namespace overlord::planner
