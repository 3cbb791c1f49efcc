#include "overlord/roles/client/logic.h"

#include <gtest/gtest.h>

namespace overlord::client {
namespace {

ClientJob job_of(uint32_t prefetch) { return {3, 1, prefetch, {}}; }

// Applies everything there is to do and returns the steps asked for and handed over.
struct Ran {
  std::vector<StepIndex> asked;
  std::vector<StepIndex> handed;
};

Ran run(const ClientJob& job, ClientState* state) {
  Ran ran;
  for (;;) {
    const Reaction reaction = next_work(job, *state);
    if (reaction.events.empty()) return ran;
    for (const Event& event : reaction.events) state->apply(event);
    for (const Effect& effect : reaction.effects) {
      if (const auto* send = std::get_if<Send>(&effect)) {
        ran.asked.push_back(std::get<protocol::Get>(send->message).step);
      } else {
        ran.handed.push_back(std::get<HandOver>(effect).ready.step);
      }
    }
  }
}

protocol::Envelope ready(StepIndex step, bool last = false) {
  auto plan = std::make_shared<model::Plan>();
  plan->step = step;
  plan->last = last;
  protocol::Envelope envelope;
  envelope.message = protocol::StepReady{step, plan, {}};
  return envelope;
}

void receive(const ClientJob& job, ClientState* state, const protocol::Envelope& envelope) {
  for (const Event& event : on_message(job, *state, envelope).events) state->apply(event);
}

TEST(ClientLogic, KeepsPrefetchStepsAsked) {
  ClientState state(5);
  EXPECT_EQ(run(job_of(2), &state).asked, (std::vector<StepIndex>{5, 6, 7}));
  state.apply(StepConsumed{5});
  EXPECT_EQ(run(job_of(2), &state).asked, (std::vector<StepIndex>{8}));
}

TEST(ClientLogic, HandsOverInOrderWhateverArrivesFirst) {
  ClientState state(0);
  const ClientJob job = job_of(2);
  run(job, &state);
  receive(job, &state, ready(2));
  receive(job, &state, ready(1));
  EXPECT_TRUE(run(job, &state).handed.empty());
  receive(job, &state, ready(0));
  EXPECT_EQ(run(job, &state).handed, (std::vector<StepIndex>{0, 1, 2}));
}

TEST(ClientLogic, AsksNothingAfterTheLastStep) {
  ClientState state(0);
  const ClientJob job = job_of(1);
  run(job, &state);
  receive(job, &state, ready(0, true));
  EXPECT_EQ(run(job, &state).handed, (std::vector<StepIndex>{0}));
  state.apply(StepConsumed{0});
  EXPECT_TRUE(run(job, &state).asked.empty());
}

TEST(ClientLogic, RefusesAStaleEnvelope) {
  ClientState state(0);
  const ClientJob job = job_of(1);
  protocol::Envelope stale = ready(0);
  stale.versions.attempt = 7;
  EXPECT_TRUE(on_message(job, state, stale).events.empty());
}

protocol::Envelope restarted(uint32_t bucket, uint32_t generation) {
  protocol::Envelope envelope;
  envelope.from = protocol::constructor_address(bucket);
  envelope.versions.generation = generation;
  envelope.message = protocol::PeerRestarted{envelope.from, generation};
  return envelope;
}

TEST(ClientLogic, AsksARestartedConstructorAgainForWhatHasNotCome) {
  ClientState state(4);
  const ClientJob job = job_of(3);
  run(job, &state);
  receive(job, &state, ready(4));
  receive(job, &state, ready(6));
  run(job, &state);
  state.apply(StepConsumed{4});
  run(job, &state);
  EXPECT_TRUE(on_message(job, state, restarted(0, 2)).effects.empty()) << "another group's";
  const Reaction reaction = on_message(job, state, restarted(job.bucket, 2));
  std::vector<StepIndex> asked;
  for (const Effect& effect : reaction.effects) {
    const auto& get = std::get<protocol::Get>(std::get<Send>(effect).message);
    EXPECT_EQ(get.acknowledged, 5u);
    asked.push_back(get.step);
  }
  EXPECT_EQ(asked, (std::vector<StepIndex>{5, 7, 8}));
}

TEST(ClientLogic, RefusesAStepOfADeadConstructor) {
  ClientState state(0);
  const ClientJob job = job_of(1);
  run(job, &state);
  receive(job, &state, restarted(job.bucket, 3));
  protocol::Envelope late = ready(0);
  late.from = protocol::constructor_address(job.bucket);
  late.versions.generation = 2;
  EXPECT_TRUE(on_message(job, state, late).events.empty());
  late.versions.generation = 3;
  EXPECT_FALSE(on_message(job, state, late).events.empty());
}

}  // namespace
}  // namespace overlord::client
