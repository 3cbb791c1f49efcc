#include "overlord/roles/constructor/logic.h"

#include <gtest/gtest.h>

namespace overlord::constructor {
namespace {

ConstructorJob job_of(uint64_t step_bytes, uint64_t budget_bytes) {
  ConstructorJob job;
  job.sources = 2;
  job.step_bytes = step_bytes;
  job.budget_bytes = budget_bytes;
  return job;
}

protocol::Envelope from(Rank rank, protocol::Message message) {
  protocol::Envelope envelope;
  envelope.from = protocol::client_address(rank);
  envelope.message = std::move(message);
  return envelope;
}

protocol::Envelope payload_of(StepIndex step, const protocol::Address& loader,
                              uint32_t generation = 1) {
  auto payload = std::make_shared<protocol::Payload>();
  payload->step = step;
  protocol::Envelope envelope;
  envelope.from = loader;
  envelope.versions.generation = generation;
  envelope.message = protocol::PayloadPtr(std::move(payload));
  return envelope;
}

protocol::Envelope restarted(const protocol::Address& role, uint32_t generation) {
  protocol::Envelope envelope;
  envelope.from = role;
  envelope.versions.generation = generation;
  envelope.message = protocol::PeerRestarted{role, generation};
  return envelope;
}

// A plan whose only bucket has segments of the given sources; two slots read those of the first.
protocol::PlanPublished plan_of(StepIndex step, bool first_source, bool second_source) {
  auto plan = std::make_shared<model::Plan>();
  plan->step = step;
  auto index = std::make_shared<model::PlanIndex>();
  index->buckets.resize(1);
  if (first_source) index->buckets[0].readers = {{0, 0}, {0, 1}};
  if (second_source) index->buckets[0].readers.push_back({1, 0});
  return {plan, index};
}

void receive(const ConstructorJob& job, ConstructorState* state, const protocol::Envelope& e) {
  for (const Event& event : on_message(job, *state, e).events) state->apply(event);
}

std::vector<Effect> run(const ConstructorJob& job, ConstructorState* state) {
  std::vector<Effect> effects;
  for (;;) {
    Reaction reaction = next_work(job, *state);
    if (reaction.events.empty()) return effects;
    for (const Event& event : reaction.events) state->apply(event);
    for (Effect& effect : reaction.effects) effects.push_back(std::move(effect));
  }
}

size_t fetches(const std::vector<Effect>& effects) {
  size_t count = 0;
  for (const Effect& effect : effects) {
    const auto* send = std::get_if<Send>(&effect);
    count += send != nullptr && std::holds_alternative<protocol::Fetch>(send->message);
  }
  return count;
}

TEST(ConstructorLogic, PullsFromTheSlotsThatReadSomethingOfItsBucket) {
  const ConstructorJob job = job_of(10, 100);
  ConstructorState state(0, {0});
  receive(job, &state, from(0, plan_of(0, true, false)));
  EXPECT_EQ(fetches(run(job, &state)), 0u) << "nobody has asked yet";
  receive(job, &state, from(0, protocol::Get{0, 0}));
  EXPECT_EQ(fetches(run(job, &state)), 2u) << "two slots of the first source";
  protocol::PlanPublished next = plan_of(1, false, false);
  auto index = std::make_shared<model::PlanIndex>(*next.index);
  index->buckets.resize(2);
  index->buckets[0].readers = {{0, 5}};
  index->buckets[1].readers = {{0, 6}, {1, 0}};
  next.index = index;
  receive(job, &state, from(0, next));
  receive(job, &state, from(0, protocol::Get{1, 0}));
  const std::vector<Effect> effects = run(job, &state);
  ASSERT_EQ(fetches(effects), 1u) << "those of the other bucket are its constructor's";
  EXPECT_EQ(std::get<Send>(effects[0]).to, protocol::loader_address(0, 5));
}

TEST(ConstructorLogic, TheBudgetHoldsBackLaterStepsNeverTheOldest) {
  const ConstructorJob job = job_of(10, 5);
  ConstructorState state(0, {0});
  for (StepIndex step = 0; step < 3; ++step) {
    receive(job, &state, from(0, plan_of(step, false, true)));
    receive(job, &state, from(0, protocol::Get{step, 0}));
  }
  EXPECT_EQ(fetches(run(job, &state)), 1u);
  EXPECT_EQ(state.steps_held(), 1u);
}

TEST(ConstructorLogic, TheBudgetCountsMediaAndTheLargestThatWereSeen) {
  ConstructorJob job = job_of(10, 140);
  job.media_row_bytes = {7};
  ConstructorState state(0, {0});
  for (StepIndex step = 0; step < 4; ++step) {
    receive(job, &state, from(0, plan_of(step, false, true)));
    receive(job, &state, from(0, protocol::Get{step, 0}));
    if (step == 0) {
      EXPECT_EQ(fetches(run(job, &state)), 1u);
      protocol::Envelope envelope = payload_of(0, protocol::loader_address(1, 0));
      auto payload = std::make_shared<protocol::Payload>();
      model::MediaPiece piece;
      piece.shape.rows = 8;
      piece.data = {"stored", 6};
      payload->media = {piece, piece};
      payload->media[1].data = {};  // encoded elsewhere
      envelope.message = protocol::PayloadPtr(payload);
      receive(job, &state, envelope);
      EXPECT_EQ(state.media_bytes(), 56u);
    }
  }
  EXPECT_EQ(fetches(run(job, &state)), 1u) << "2 x 10 + 56 + 56 fit, 3 x 10 + 56 + 56 do not";
  EXPECT_EQ(state.steps_held(), 2u);
}

TEST(ConstructorLogic, WhatDoesNotDecodeIsToldWithEveryFurtherFetch) {
  const ConstructorJob job = job_of(10, 100);
  const protocol::Address loader = protocol::loader_address(1, 0);
  ConstructorState state(0, {0});
  receive(job, &state, from(0, plan_of(0, false, true)));
  receive(job, &state, from(0, protocol::Get{0, 0}));
  run(job, &state);
  receive(job, &state, payload_of(0, loader));
  ASSERT_EQ(state.step(0)->stage, Stage::kAssembling);
  const protocol::Undecodable first{{1, 0, 3}, "cut"}, second{{1, 0, 5}, "damaged"};
  const auto refuse = [&](const protocol::Undecodable& one) {
    Reaction reaction = on_undecodable(job, state, 0, {{loader, {one}}});
    for (const Event& event : reaction.events) state.apply(event);
    return std::get<protocol::Fetch>(std::get<Send>(reaction.effects.at(0)).message);
  };
  EXPECT_EQ(refuse(first).undecodable, (std::vector{first}));
  EXPECT_EQ(state.step(0)->stage, Stage::kFetching);
  receive(job, &state, payload_of(0, loader));
  EXPECT_EQ(state.step(0)->stage, Stage::kAssembling) << "asked once, answered once";
  EXPECT_EQ(refuse(second).undecodable, (std::vector{first, second}));
  const Reaction again = on_message(job, state, restarted(loader, 2));
  const auto& send = std::get<Send>(again.effects.at(0));
  EXPECT_EQ(std::get<protocol::Fetch>(send.message).undecodable, (std::vector{first, second}));
  EXPECT_TRUE(on_undecodable(job, state, 9, {{loader, {first}}}).events.empty())
      << "of a step that is not held any more";
}

// A rank whose process was started again says so by its generation.
protocol::Envelope back(Rank rank, StepIndex step) {
  protocol::Envelope envelope = from(rank, protocol::Get{step, step});
  envelope.versions.generation = 2;
  return envelope;
}

// Steps before this one are done with by both ranks, and one more is planned.
ConstructorState after_steps(const ConstructorJob& job, StepIndex done) {
  ConstructorState state(0, {0, 1});
  for (StepIndex step = 0; step <= done; ++step) {
    receive(job, &state, from(0, plan_of(step, false, true)));
  }
  for (const Rank rank : {0u, 1u}) receive(job, &state, from(rank, protocol::Get{done, done}));
  run(job, &state);
  return state;
}

std::optional<Status> refusal_of(const std::vector<Effect>& effects) {
  for (const Effect& effect : effects) {
    const auto* send = std::get_if<Send>(&effect);
    if (send == nullptr) continue;
    if (const auto* failed = std::get_if<protocol::StreamFailed>(&send->message)) {
      return failed->status;
    }
  }
  return std::nullopt;
}

TEST(ConstructorLogic, ARankThatComesBackGetsStepsThatAllWereDoneWith) {
  const ConstructorJob job = job_of(10, 100);
  const protocol::Address loader = protocol::loader_address(1, 0);
  ConstructorState state = after_steps(job, 7);
  EXPECT_EQ(state.step(6), nullptr);
  receive(job, &state, back(1, 5));
  EXPECT_EQ(state.acknowledged(), 5u);
  EXPECT_EQ(fetches(run(job, &state)), 1u) << "what it has asked for; nobody wants step 6 yet";
  receive(job, &state, payload_of(5, loader));
  state.apply(StepAssembled{5});
  const std::vector<Effect> effects = run(job, &state);
  ASSERT_EQ(effects.size(), 1u);
  EXPECT_EQ(std::get<Deliver>(effects[0]).rank, 1u);
  protocol::Envelope next = back(1, 6);
  receive(job, &state, next);
  EXPECT_EQ(state.acknowledged(), 6u) << "it goes on as before";
  EXPECT_EQ(fetches(run(job, &state)), 1u);
  receive(job, &state, from(1, protocol::Get{2, 2}));
  EXPECT_EQ(state.acknowledged(), 6u) << "what the dead one has said is refused";
}

TEST(ConstructorLogic, ItIsRefusedByNameWhereItComesFromTooFar) {
  const ConstructorJob job = job_of(10, 100);
  ConstructorState state = after_steps(job, 7);
  receive(job, &state, back(1, 2));
  const std::optional<Status> why = refusal_of(run(job, &state));
  ASSERT_TRUE(why);
  EXPECT_NE(why->message().find("rank 1 comes back at step 2"), std::string::npos)
      << why->message();
  EXPECT_NE(why->message().find("restart the job"), std::string::npos);
}

// Loaders that restart are told of no plan that all were done with.
TEST(ConstructorLogic, ItIsRefusedWhereALoaderHasRestarted) {
  const ConstructorJob job = job_of(10, 100);
  const protocol::Address loader = protocol::loader_address(1, 0);
  ConstructorState before = after_steps(job, 7);
  receive(job, &before, restarted(loader, 2));
  receive(job, &before, back(1, 6));
  EXPECT_TRUE(refusal_of(run(job, &before)));
  ConstructorState meanwhile = after_steps(job, 7);
  receive(job, &meanwhile, back(1, 6));
  EXPECT_EQ(fetches(run(job, &meanwhile)), 1u);
  const Reaction reaction = on_message(job, meanwhile, restarted(loader, 2));
  EXPECT_EQ(fetches(reaction.effects), 1u) << "step 7, which is of this time";
  for (const Event& event : reaction.events) meanwhile.apply(event);
  EXPECT_TRUE(refusal_of(run(job, &meanwhile)));
}

TEST(ConstructorLogic, OneThatStartsInTheMiddleWaitsForThePlansItIsToldOf) {
  const ConstructorJob job = job_of(10, 100);
  ConstructorState state(0, {0, 1});
  receive(job, &state, back(1, 6));
  EXPECT_FALSE(refusal_of(run(job, &state))) << "it may come";
  receive(job, &state, from(0, plan_of(7, false, true)));
  EXPECT_FALSE(refusal_of(run(job, &state))) << "it may come behind one that was sent before";
  protocol::Envelope begin = from(0, protocol::Acknowledged{7});
  begin.from = protocol::planner_address();
  receive(job, &state, begin);
  EXPECT_TRUE(refusal_of(run(job, &state))) << "it will not";
}

TEST(ConstructorLogic, AStepGoesToEachClientOnceAndIsFreedByTheSlowest) {
  const ConstructorJob job = job_of(10, 100);
  ConstructorState state(0, {0, 1});
  receive(job, &state, from(0, plan_of(0, false, true)));
  receive(job, &state, from(0, protocol::Get{0, 0}));
  run(job, &state);
  receive(job, &state, payload_of(0, protocol::loader_address(1, 0)));
  state.apply(StepAssembled{0});
  EXPECT_EQ(run(job, &state).size(), 1u);
  receive(job, &state, from(1, protocol::Get{0, 0}));
  EXPECT_EQ(run(job, &state).size(), 1u);
  receive(job, &state, from(0, protocol::Get{1, 1}));
  EXPECT_NE(state.step(0), nullptr) << "rank 1 still holds it";
  receive(job, &state, from(1, protocol::Get{1, 1}));
  EXPECT_EQ(state.step(0), nullptr);
}

TEST(ConstructorLogic, AFailedFunctionEndsTheStreamOfAllGroups) {
  const ConstructorJob job = job_of(10, 100);
  ConstructorState state(0, {0});
  receive(job, &state, from(0, plan_of(1, false, true)));
  const Status failed(Code::kUserFunction, "step 1");
  EXPECT_TRUE(on_transform_failed(state, 0, failed).effects.empty()) << "acknowledged meanwhile";
  const Reaction reaction = on_transform_failed(state, 1, failed);
  for (const Event& event : reaction.events) state.apply(event);
  const auto& send = std::get<Send>(reaction.effects.at(0));
  EXPECT_EQ(send.to, protocol::planner_address());
  EXPECT_EQ(std::get<protocol::StreamFailed>(send.message).step, 1u);
  receive(job, &state, from(0, protocol::Get{1, 0}));
  for (const Effect& effect : run(job, &state)) {
    const auto* told = std::get_if<protocol::StreamFailed>(&std::get<Send>(effect).message);
    EXPECT_EQ(told, nullptr) << "the planner may not know yet";
  }
  receive(job, &state, from(0, send.message));
  const std::vector<Effect> effects = run(job, &state);
  EXPECT_EQ(
      std::get<protocol::StreamFailed>(std::get<Send>(effects.at(0)).message).status.message(),
      "step 1");
}

TEST(ConstructorLogic, AFailureReachesWhoeverAsksFromThatStepOn) {
  const ConstructorJob job = job_of(10, 100);
  ConstructorState state(0, {0});
  receive(job, &state, from(0, protocol::StreamFailed{1, Status(Code::kInternal, "x")}));
  receive(job, &state, from(0, protocol::Get{0, 0}));
  receive(job, &state, from(0, protocol::Get{1, 0}));
  const std::vector<Effect> effects = run(job, &state);
  ASSERT_EQ(effects.size(), 1u);
  EXPECT_EQ(std::get<protocol::StreamFailed>(std::get<Send>(effects[0]).message).step, 1u);
}

TEST(ConstructorLogic, StepsBeforeAFailureAreStillMade) {
  const ConstructorJob job = job_of(10, 100);
  ConstructorState state(0, {0});
  receive(job, &state, from(0, plan_of(0, false, true)));
  receive(job, &state, from(0, protocol::StreamFailed{1, Status(Code::kInternal, "x")}));
  receive(job, &state, from(0, protocol::Get{0, 0}));
  EXPECT_EQ(fetches(run(job, &state)), 1u);
}

TEST(ConstructorLogic, ALatePayloadIsDropped) {
  const ConstructorJob job = job_of(10, 100);
  ConstructorState state(0, {0});
  EXPECT_TRUE(on_message(job, state, payload_of(9, protocol::loader_address(0, 0))).events.empty());
}

TEST(ConstructorLogic, AsksARestartedLoaderAgainForWhatItDidNotSend) {
  const ConstructorJob job = job_of(10, 100);
  ConstructorState state(0, {0});
  for (StepIndex step = 0; step < 2; ++step) {
    receive(job, &state, from(0, plan_of(step, true, true)));
    receive(job, &state, from(0, protocol::Get{step, 0}));
  }
  run(job, &state);
  const protocol::Address loader = protocol::loader_address(0, 1);
  receive(job, &state, payload_of(0, loader));
  const Reaction reaction = on_message(job, state, restarted(loader, 2));
  ASSERT_EQ(reaction.effects.size(), 1u) << "step 0 has come, step 1 has not";
  const auto& send = std::get<Send>(reaction.effects[0]);
  EXPECT_EQ(send.to, loader);
  EXPECT_EQ(std::get<protocol::Fetch>(send.message).step, 1u);
}

TEST(ConstructorLogic, RefusesThePayloadOfADeadLoader) {
  const ConstructorJob job = job_of(10, 100);
  ConstructorState state(0, {0});
  receive(job, &state, from(0, plan_of(0, false, true)));
  receive(job, &state, from(0, protocol::Get{0, 0}));
  run(job, &state);
  const protocol::Address loader = protocol::loader_address(1, 0);
  receive(job, &state, restarted(loader, 3));
  EXPECT_TRUE(on_message(job, state, payload_of(0, loader, 2)).events.empty());
  EXPECT_EQ(on_message(job, state, payload_of(0, loader, 3)).effects.size(), 2u) << "kept, made";
}

TEST(ConstructorLogic, ARestartedOneMakesOnlyWhatIsAskedAgainAndTheOldestAlwaysFits) {
  const ConstructorJob job = job_of(10, 5);  // not even one step fits
  ConstructorState state(0, {0, 1});
  for (StepIndex step = 3; step < 7; ++step)
    receive(job, &state, from(0, plan_of(step, true, true)));
  receive(job, &state, from(0, protocol::Get{5, 3}));
  EXPECT_EQ(fetches(run(job, &state)), 3u);
  EXPECT_EQ(state.step(5)->stage, Stage::kFetching);
  EXPECT_EQ(state.step(4)->stage, Stage::kPlanned) << "rank 0 has it";
  receive(job, &state, from(1, protocol::Get{4, 4}));
  EXPECT_EQ(fetches(run(job, &state)), 3u) << "older than what is held: never held back by it";
  receive(job, &state, from(1, protocol::Get{6, 4}));
  EXPECT_EQ(fetches(run(job, &state)), 0u) << "the budget";
}

protocol::Envelope from_planner(uint32_t term, protocol::Message message) {
  protocol::Envelope envelope;
  envelope.from = protocol::planner_address();
  envelope.versions.generation = term;
  envelope.message = std::move(message);
  return envelope;
}

TEST(ConstructorLogic, PromisesAndTellsTheNextPlannerWhatIsDoneWith) {
  const ConstructorJob job = job_of(10, 100);
  ConstructorState state(2, {0, 1});
  protocol::PlanPublished newest = plan_of(5, false, true);
  auto plan = std::make_shared<model::Plan>(*newest.plan);
  plan->plan_hash = digest_of("plan 5");
  newest.plan = plan;
  for (StepIndex step = 2; step < 5; ++step) {
    receive(job, &state, from_planner(1, plan_of(step, false, true)));
  }
  receive(job, &state, from_planner(1, newest));
  receive(job, &state, from(0, protocol::Get{4, 4}));
  receive(job, &state, from(1, protocol::Get{4, 3}));
  const auto answer = [&](uint32_t term) {
    const Reaction reaction = on_message(job, state, from_planner(term, protocol::TermOpened{}));
    for (const Event& event : reaction.events) state.apply(event);
    std::vector<protocol::Message> out;
    for (const Effect& effect : reaction.effects) {
      EXPECT_EQ(std::get<Send>(effect).to, protocol::planner_address());
      out.push_back(std::get<Send>(effect).message);
    }
    return out;
  };
  std::vector<protocol::Message> told = answer(2);
  ASSERT_EQ(told.size(), 2u);
  const auto& promise = std::get<protocol::TermPromised>(told[0]);
  EXPECT_EQ(promise.term, 2u);
  EXPECT_EQ(promise.planned, 6u);
  EXPECT_EQ(promise.plan_hash, plan->plan_hash);
  EXPECT_EQ(std::get<protocol::Acknowledged>(told[1]).acknowledged, 3u) << "by the slowest";
  EXPECT_TRUE(on_message(job, state, from_planner(1, plan_of(6, false, true))).events.empty())
      << "the term before may still live";

  for (const Rank rank : {0, 1}) receive(job, &state, from(rank, protocol::Acknowledged{6}));
  told = answer(3);
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(std::get<protocol::TermPromised>(told[0]).planned, 6u) << "all is done with";
  EXPECT_EQ(std::get<protocol::TermPromised>(told[0]).plan_hash, Digest()) << "and forgotten";
  EXPECT_EQ(std::get<protocol::Acknowledged>(told[1]).acknowledged, 6u);
  EXPECT_TRUE(answer(2).empty());
}

TEST(ConstructorLogic, WhatIsMadeAgainByTheNextTermIsHeldOnce) {
  const ConstructorJob job = job_of(10, 100);
  ConstructorState state(0, {0});
  for (StepIndex step = 0; step < 2; ++step) {
    receive(job, &state, from_planner(1, plan_of(step, false, true)));
    receive(job, &state, from(0, protocol::Get{step, 0}));
  }
  EXPECT_EQ(fetches(run(job, &state)), 2u);
  receive(job, &state, from_planner(2, protocol::TermOpened{}));
  for (StepIndex step = 0; step < 3; ++step) {
    receive(job, &state, from_planner(2, plan_of(step, false, true)));
  }
  EXPECT_EQ(state.steps().size(), 3u);
  EXPECT_EQ(state.step(0)->stage, Stage::kFetching) << "work goes on where it was";
  EXPECT_EQ(fetches(run(job, &state)), 0u);
}

TEST(ConstructorLogic, AFailureIsToldAgainToTheNextPlanner) {
  const ConstructorJob job = job_of(10, 100);
  ConstructorState state(0, {0});
  for (StepIndex step = 1; step < 3; ++step) {
    receive(job, &state, from(0, plan_of(step, false, true)));
  }
  for (const StepIndex step : {2, 1}) {
    const Status status(Code::kUserFunction, "step " + std::to_string(step));
    for (const Event& event : on_transform_failed(state, step, status).events) state.apply(event);
  }
  const Reaction reaction = on_message(job, state, from_planner(2, protocol::TermOpened{}));
  ASSERT_EQ(reaction.effects.size(), 1u) << "no rank is done with anything";
  const auto& promise =
      std::get<protocol::TermPromised>(std::get<Send>(reaction.effects[0]).message);
  ASSERT_EQ(promise.ends.size(), 1u) << "in one message, or something is planned in between";
  EXPECT_EQ(promise.ends[0].step, 1u);
  EXPECT_EQ(promise.ends[0].status.message(), "step 1");
}

}  // namespace
}  // namespace overlord::constructor
