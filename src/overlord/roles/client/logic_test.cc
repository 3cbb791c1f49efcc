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

protocol::Envelope ready(StepIndex step, bool last = false) {  // of the job's constructor
  auto plan = std::make_shared<model::Plan>();
  plan->step = step;
  plan->last = last;
  protocol::Envelope envelope;
  envelope.from = protocol::constructor_address(1);
  envelope.message = protocol::StepReady{step, plan, {}};
  return envelope;
}

void receive(const ClientJob& job, ClientState* state, const protocol::Envelope& envelope) {
  for (const Event& event : on_message(job, *state, envelope).events) state->apply(event);
}

TEST(ClientLogic, KeepsPrefetchStepsAsked) {
  ClientState state(5);
  EXPECT_EQ(run(job_of(2), &state).asked, (std::vector<StepIndex>{5, 6, 7}));
  receive(job_of(2), &state, ready(5));
  EXPECT_EQ(run(job_of(2), &state).handed, (std::vector<StepIndex>{5}));
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

std::vector<StepIndex> acknowledged(const Reaction& reaction) {
  std::vector<StepIndex> steps;
  for (const Effect& effect : reaction.effects) {
    const auto* ack = std::get_if<protocol::Acknowledged>(&std::get<Send>(effect).message);
    if (ack != nullptr) steps.push_back(ack->acknowledged);
  }
  return steps;
}

// Its other ranks may wait for a step for which it has no room as long as it holds one for us.
TEST(ClientLogic, TellsARestartedConstructorWhereItStandsThoughItMissesNothing) {
  ClientState state(6);
  const ClientJob job = job_of(1);
  run(job, &state);
  receive(job, &state, ready(6));
  receive(job, &state, ready(7, true));
  EXPECT_EQ(run(job, &state).handed, (std::vector<StepIndex>{6, 7}));
  const Reaction told = on_message(job, state, restarted(job.bucket, 2));
  EXPECT_EQ(acknowledged(told), (std::vector<StepIndex>{6}));
  EXPECT_EQ(acknowledged(on_consumed(job, state, 6, 1)), (std::vector<StepIndex>{7}))
      << "no Get will tell it any more";
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

struct Told {
  std::vector<std::pair<protocol::Address, StepIndex>> asked;
  std::vector<std::pair<protocol::Address, StepIndex>> acknowledged;
};

Told told_by(const Reaction& reaction) {
  Told out;
  for (const Effect& effect : reaction.effects) {
    const auto& send = std::get<Send>(effect);
    if (const auto* get = std::get_if<protocol::Get>(&send.message)) {
      out.asked.emplace_back(send.to, get->step);
    } else {
      out.acknowledged.emplace_back(send.to,
                                    std::get<protocol::Acknowledged>(send.message).acknowledged);
    }
  }
  return out;
}

// Steps of the old tree stay where they are, those of the new are asked for anew, and the old
// constructor hears what is consumed until it can retire.
TEST(ClientLogic, ANewTreeChangesWhomItAsksFromItsStepOn) {
  using Pairs = std::vector<std::pair<protocol::Address, StepIndex>>;
  const ClientJob job = job_of(3);
  const auto old_one = protocol::constructor_address(job.bucket);
  const auto new_one = protocol::constructor_address(0, 2);
  ClientState state(4);
  run(job, &state);  // asks for 4 to 7
  const Reaction reseated = on_reseated(job, state, 6, new_one);
  EXPECT_EQ(told_by(reseated).asked, (Pairs{{new_one, 6}, {new_one, 7}}));
  EXPECT_EQ(told_by(reseated).acknowledged, (Pairs{{old_one, 4}}));
  for (const Event& event : reseated.events) state.apply(event);
  EXPECT_TRUE(on_reseated(job, state, 6, new_one).effects.empty()) << "told twice";

  EXPECT_EQ(told_by(on_message(job, state, restarted(job.bucket, 2))).asked,
            (Pairs{{old_one, 4}, {old_one, 5}}));
  receive(job, &state, ready(4));
  receive(job, &state, ready(5));
  run(job, &state);
  const Reaction consumed = on_consumed(job, state, 4, 1);
  EXPECT_EQ(told_by(consumed).acknowledged, (Pairs{{old_one, 5}}));
  for (const Event& event : consumed.events) state.apply(event);
  const Told again = told_by(on_message(job, state, restarted(job.bucket, 3)));
  EXPECT_TRUE(again.asked.empty());
  EXPECT_EQ(again.acknowledged, (Pairs{{old_one, 5}})) << "it has nothing to make and must know";
  const Told next = told_by(next_work(job, state));
  EXPECT_EQ(next.asked, (Pairs{{new_one, 8}}));
  for (const Event& event : on_consumed(job, state, 5, 1).events) state.apply(event);
  EXPECT_TRUE(told_by(on_consumed(job, state, 6, 2)).acknowledged.empty()) << "no later tree";
}

// What was read of such a step is void, and what is on its way of it too.
TEST(ClientLogic, AStepThatIsPlacedAgainComesFromItsNewConstructorAlone) {
  const ClientJob job = job_of(2);
  const auto new_one = protocol::constructor_address(0, 2);
  ClientState state(4);
  run(job, &state);
  receive(job, &state, ready(4));
  receive(job, &state, ready(5));
  EXPECT_EQ(run(job, &state).handed, (std::vector<StepIndex>{4, 5}));
  for (const Event& event : on_consumed(job, state, 4, 1).events) state.apply(event);
  const Restarted placed_again{2, 4, new_one};
  for (const Event& event : on_restarted(state, placed_again).events) state.apply(event);
  EXPECT_TRUE(on_restarted(state, placed_again).events.empty()) << "told twice";
  EXPECT_TRUE(on_consumed(job, state, 4, 1).events.empty()) << "of the tree before";
  EXPECT_EQ(run(job, &state).asked, (std::vector<StepIndex>{4, 5, 6}));
  receive(job, &state, ready(4));
  EXPECT_TRUE(run(job, &state).handed.empty()) << "made under the tree before";
  protocol::Envelope anew = ready(4);
  anew.from = new_one;
  receive(job, &state, anew);
  EXPECT_EQ(run(job, &state).handed, (std::vector<StepIndex>{4}));
}

TEST(ClientLogic, ARankWithoutAPlaceAsksForNothingUntilItHasOne) {
  const ClientJob job = job_of(2);
  ClientState state(4);
  run(job, &state);
  for (const Event& event : on_restarted(state, {2, 4, {}}).events) state.apply(event);
  EXPECT_TRUE(run(job, &state).asked.empty());
  receive(job, &state, ready(4));
  EXPECT_TRUE(run(job, &state).handed.empty());
  const Restarted back{3, 9, protocol::constructor_address(1, 3)};
  for (const Event& event : on_restarted(state, back).events) state.apply(event);
  EXPECT_EQ(run(job, &state).asked, (std::vector<StepIndex>{9, 10, 11}));
}

protocol::Envelope of_planner(uint32_t term, protocol::Message message) {
  protocol::Envelope envelope;
  envelope.from = protocol::planner_address();
  envelope.versions.generation = term;
  envelope.message = std::move(message);
  return envelope;
}

struct Reporter {
  explicit Reporter(uint32_t reports_kept = 64) : state(0, {}, reports_kept) {}

  // What the planner is told, by step.
  std::vector<StepIndex> sent(const Reaction& reaction) {
    std::vector<StepIndex> out;
    for (const Event& event : reaction.events) state.apply(event);
    for (const Effect& effect : reaction.effects) {
      const auto& send = std::get<Send>(effect);
      EXPECT_EQ(send.to, protocol::planner_address());
      out.push_back(std::get<protocol::Report>(send.message).part.step);
    }
    return out;
  }
  std::vector<StepIndex> report(StepIndex step) {
    protocol::Report report;
    report.part.step = step;
    report.part.losses = {{0, static_cast<int64_t>(100 + step), 10}};
    return sent(on_telling(state, report));
  }
  std::vector<StepIndex> term(uint32_t number) {
    return sent(on_message(job, state, of_planner(number, protocol::TermOpened{})));
  }
  // The verdict as the trainer gets it, if it does.
  std::optional<protocol::Verdict> answer(uint32_t term, StepIndex step,
                                          protocol::Verdict verdict) {
    const protocol::ReportAnswered answered{step, verdict};
    const Reaction reaction = on_message(job, state, of_planner(term, answered));
    for (const Event& event : reaction.events) state.apply(event);
    if (reaction.effects.empty()) return std::nullopt;
    EXPECT_EQ(reaction.effects.size(), 1u);
    return std::get<Answered>(reaction.effects.at(0)).answer.verdict;
  }

  ClientJob job = job_of(1);
  ClientState state;
};

using protocol::Verdict;

TEST(ClientReports, AreRepeatedToTheNextPlannerAndSettledOnce) {
  Reporter rank;
  for (StepIndex step = 0; step < 3; ++step) {
    EXPECT_EQ(rank.report(step), std::vector<StepIndex>{step});
  }
  EXPECT_EQ(rank.answer(1, 0, Verdict::kAccepted), Verdict::kAccepted);
  EXPECT_EQ(rank.term(2), (std::vector<StepIndex>{0, 1, 2}))
      << "the one that is settled too: it may have been in the dead one's memory alone";
  EXPECT_EQ(rank.answer(2, 0, Verdict::kAccepted), std::nullopt) << "the trainer has its verdict";
  EXPECT_EQ(rank.answer(2, 1, Verdict::kAccepted), Verdict::kAccepted);
  EXPECT_EQ(rank.answer(2, 1, Verdict::kAccepted), std::nullopt);
  EXPECT_EQ(rank.answer(1, 2, Verdict::kAccepted), std::nullopt) << "of the planner before";
  EXPECT_EQ(rank.answer(2, 2, Verdict::kLate), Verdict::kLate);
}

// It had counted, and its verdict was lost with the planner.
TEST(ClientReports, ADuplicateOfOneThatWasRepeatedIsAccepted) {
  Reporter rank;
  rank.report(4);
  rank.term(2);
  EXPECT_EQ(rank.answer(2, 4, Verdict::kDuplicate), Verdict::kAccepted);
  rank.report(5);
  EXPECT_EQ(rank.answer(2, 5, Verdict::kDuplicate), Verdict::kDuplicate) << "it was not repeated";
}

// The trainer waits for every verdict: one that reports a step again must not wait in vain.
TEST(ClientReports, OneThatTheTrainerRepeatsItselfIsADuplicateInEveryTerm) {
  Reporter rank;
  rank.report(4);
  EXPECT_EQ(rank.answer(1, 4, Verdict::kAccepted), Verdict::kAccepted);
  rank.term(2);
  rank.report(4);
  EXPECT_EQ(rank.answer(2, 4, Verdict::kAccepted), Verdict::kDuplicate) << "of the term's own";
  EXPECT_EQ(rank.answer(2, 4, Verdict::kDuplicate), std::nullopt) << "it waits for one";
  rank.report(4);
  EXPECT_EQ(rank.answer(2, 4, Verdict::kDuplicate), Verdict::kDuplicate);
}

TEST(ClientReports, TheFirstOfAStepIsTheOneThatIsRepeated) {
  Reporter rank;
  rank.report(4);
  protocol::Report other;
  other.part.step = 4;
  other.part.losses = {{0, 7, 7}};
  EXPECT_EQ(rank.sent(on_telling(rank.state, other)).size(), 1u) << "the planner judges it";
  EXPECT_EQ(rank.state.reports().at(4).part.losses.front().loss, 104);
}

TEST(ClientReports, AsManyAreKeptAsMayNotCountYet) {
  Reporter rank(3);
  for (StepIndex step = 0; step < 50; ++step) {
    rank.report(step);
    EXPECT_EQ(rank.answer(1, step, Verdict::kAccepted), Verdict::kAccepted);
    ASSERT_LE(rank.state.reports().size(), 3u);
  }
  EXPECT_EQ(rank.term(2), (std::vector<StepIndex>{47, 48, 49}));
  rank.report(50);
  EXPECT_EQ(rank.answer(2, 47, Verdict::kDuplicate), std::nullopt)
      << "it was repeated, and forgotten before the answer";
  rank.report(2);
  EXPECT_EQ(rank.answer(2, 2, Verdict::kDuplicate), Verdict::kDuplicate) << "told twice";
}

TEST(ClientReports, WhatARuleAnswersIsNotKept) {
  Reporter rank;
  protocol::Report weights;
  weights.part.step = 3;
  weights.part.weights = {1, 2};
  EXPECT_EQ(rank.sent(on_telling(rank.state, weights)), std::vector<StepIndex>{3});
  const protocol::StreamFailed failed{4, Status(Code::kUserFunction, "rule")};
  EXPECT_EQ(on_telling(rank.state, failed).effects.size(), 1u);
  EXPECT_TRUE(rank.state.reports().empty());
  EXPECT_TRUE(rank.term(2).empty()) << "the next planner asks the rule itself";
}

TEST(ClientLogic, HandsOnWhatAUsersFunctionIsAsked) {
  protocol::Envelope asked;
  asked.from = protocol::planner_address();
  asked.message = protocol::CalloutAsked{7, std::make_shared<const model::CalloutRequest>()};
  const Reaction reaction = on_message(job_of(2), ClientState(0), asked);
  ASSERT_EQ(reaction.effects.size(), 1u);
  EXPECT_EQ(std::get<CalloutAsked>(reaction.effects[0]).asked.question, 7u);
  const Reaction told = on_telling(ClientState(0), protocol::CalloutTold{7, {1}});
  EXPECT_EQ(std::get<Send>(told.effects.at(0)).to, protocol::planner_address());
}

TEST(ClientLogic, OneThatComesBackSaysSoToThePlanner) {
  ClientJob job = job_of(2);
  EXPECT_TRUE(on_start(job).effects.empty());
  job.versions.generation = 4;
  const Reaction reaction = on_start(job);
  ASSERT_EQ(reaction.effects.size(), 1u);
  const Send& send = std::get<Send>(reaction.effects[0]);
  EXPECT_EQ(send.to, protocol::planner_address());
  const auto& restarted = std::get<protocol::PeerRestarted>(send.message);
  EXPECT_EQ(restarted.role, protocol::client_address(3));
  EXPECT_EQ(restarted.generation, 4u);
}

}  // namespace
}  // namespace overlord::client
