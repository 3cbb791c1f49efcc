#include "overlord/roles/loader/logic.h"

#include <gtest/gtest.h>

namespace overlord::loader {
namespace {

constexpr uint32_t kTree = 1;

LoaderJob job_of(uint32_t slot, uint32_t slots, uint32_t workers = 1) {
  LoaderJob job;
  job.slot = slot;
  job.slots = slots;
  job.workers = workers;
  job.windows_per_pass = 10;
  return job;
}

std::vector<uint64_t> windows_made(const LoaderJob& job, LoaderState* state) {
  std::vector<uint64_t> made;
  for (;;) {
    const Reaction reaction = next_work(job, *state);
    if (reaction.events.empty()) return made;
    for (const Event& event : reaction.events) state->apply(event);
    for (const Effect& effect : reaction.effects) {
      if (const auto* make = std::get_if<MakeWindow>(&effect)) made.push_back(make->sequence);
    }
  }
}

protocol::Envelope plan_of(StepIndex step) {
  auto rows = std::make_shared<model::SlotRows>();
  rows->step = step;
  rows->tree = kTree;
  protocol::Envelope envelope;
  envelope.message = protocol::RowsPlanned{rows};
  return envelope;
}

void receive(const LoaderJob& job, LoaderState* state, const protocol::Envelope& envelope) {
  for (const Event& event : on_message(job, *state, envelope).events) state->apply(event);
}

TEST(LoaderLogic, PostsOnlyUnderAGrantAndAsManyAsWorkers) {
  LoaderState state(4);
  const LoaderJob job = job_of(0, 1, 2);
  EXPECT_TRUE(windows_made(job, &state).empty());
  state.apply(GrantRaised{9});
  EXPECT_EQ(windows_made(job, &state), (std::vector<uint64_t>{4, 5}));
  state.apply(WindowPosted{4});
  EXPECT_EQ(windows_made(job, &state), (std::vector<uint64_t>{6}));
}

TEST(LoaderLogic, SlotsDivideWindowsByTheOwnerMap) {
  std::vector<uint64_t> all;
  for (uint32_t slot = 0; slot < 3; ++slot) {
    LoaderState state(0);
    state.apply(GrantRaised{25});
    const LoaderJob job = job_of(slot, 3, 100);
    for (const uint64_t sequence : windows_made(job, &state)) {
      EXPECT_EQ(sequence % 10 % 3, slot);
      all.push_back(sequence);
    }
  }
  EXPECT_EQ(all.size(), 25u);
}

TEST(LoaderLogic, AGrantSaysHowManySlotsDivideItsWindows) {
  std::vector<uint64_t> all;
  for (uint32_t slot = 0; slot < 4; ++slot) {
    LoaderState state(0);
    const LoaderJob job = job_of(slot, 2, 100);
    protocol::Envelope grant;
    grant.message = protocol::MetaGrant{6, 0, {}};
    receive(job, &state, grant);
    std::vector<uint64_t> made = windows_made(job, &state);
    grant.message = protocol::MetaGrant{14, 0, {{0, 2}, {6, 4}, {12, 1}}};
    receive(job, &state, grant);
    for (const uint64_t sequence : windows_made(job, &state)) made.push_back(sequence);
    for (const uint64_t sequence : made) {
      EXPECT_EQ(sequence % 10 % (sequence < 6 ? 2 : sequence < 12 ? 4 : 1), slot);
    }
    all.insert(all.end(), made.begin(), made.end());
  }
  EXPECT_EQ(all.size(), 14u);
}

TEST(LoaderLogic, NothingIsPostedBehindTheEndOfASourceThatEnds) {
  LoaderState state(8);
  state.apply(GrantRaised{15});
  LoaderJob job = job_of(0, 1, 100);
  job.one_pass = true;
  EXPECT_EQ(windows_made(job, &state), (std::vector<uint64_t>{8, 9}));
}

TEST(LoaderLogic, AFetchWaitsForItsPlanAndTheOldestGoesFirst) {
  LoaderState state(0);
  const LoaderJob job = job_of(0, 1);
  state.apply(FetchAsked{{7, kTree, 0}});
  state.apply(FetchAsked{{6, kTree, 1}});
  EXPECT_TRUE(next_work(job, state).events.empty());
  receive(job, &state, plan_of(6));
  const Reaction reaction = next_work(job, state);
  ASSERT_EQ(reaction.effects.size(), 1u);
  EXPECT_EQ(std::get<Serve>(reaction.effects[0]).key, (FetchKey{6, kTree, 1}));
}

// Asked of a process that has died, of a step that is done with: no plan of it comes any more.
TEST(LoaderLogic, AFetchWhosePlanNeverComesHoldsUpNobody) {
  LoaderState state(0);
  const LoaderJob job = job_of(0, 1);
  state.apply(FetchAsked{{6, kTree, 0}});
  state.apply(FetchAsked{{7, kTree, 0}});
  receive(job, &state, plan_of(7));
  const Reaction reaction = next_work(job, state);
  ASSERT_EQ(reaction.effects.size(), 1u);
  EXPECT_EQ(std::get<Serve>(reaction.effects[0]).key, (FetchKey{7, kTree, 0}));
}

TEST(LoaderLogic, OldPlansAreForgotten) {
  LoaderState state(0);
  LoaderJob job = job_of(0, 1);
  job.runway = 2;
  for (StepIndex step = 0; step < 10; ++step) receive(job, &state, plan_of(step));
  EXPECT_EQ(state.plan(3), nullptr);
  EXPECT_NE(state.plan(4), nullptr) << "two of the runway, and those that may be asked for again";
  EXPECT_NE(state.plan(9), nullptr);
}

TEST(LoaderLogic, ARestartedOneGoesOnWhereTheGrantSays) {
  LoaderState state(0);
  const LoaderJob job = job_of(0, 1, 100);
  protocol::Envelope grant;
  grant.message = protocol::MetaGrant{9, 7};
  receive(job, &state, grant);
  EXPECT_EQ(windows_made(job, &state), (std::vector<uint64_t>{7, 8}));
}

TEST(LoaderLogic, AFetchOfARetiredStepHoldsUpNobody) {
  LoaderState state(0);
  LoaderJob job = job_of(0, 1);
  job.runway = 2;
  state.apply(FetchAsked{{3, kTree, 0}});
  receive(job, &state, plan_of(9));
  state.apply(FetchAsked{{2, kTree, 0}});
  EXPECT_TRUE(state.waiting().empty());
  state.apply(FetchAsked{{9, kTree, 0}});
  EXPECT_EQ(next_work(job, state).effects.size(), 1u);
}

TEST(LoaderLogic, AnAnswerWithHolesWaitsUntilAllOfThemAreLogged) {
  LoaderState state(0);
  const LoaderJob job = job_of(0, 1);
  const SampleId first{0, 0, 7}, second{0, 0, 8};
  state.apply(HolesFound{{3, kTree, 0}, {{first, "bad"}, {second, "bad"}}});
  state.apply(HolesFound{{3, kTree, 1}, {{second, "bad"}}});
  protocol::Envelope logged;
  logged.message = protocol::LateBad{3, second, "bad"};
  Reaction reaction = on_message(job, state, logged);
  ASSERT_EQ(reaction.effects.size(), 1u);
  EXPECT_EQ(std::get<Answer>(reaction.effects[0]).key, (FetchKey{3, kTree, 1}));
  for (const Event& event : reaction.events) state.apply(event);
  logged.message = protocol::LateBad{3, first, "bad"};
  reaction = on_message(job, state, logged);
  ASSERT_EQ(reaction.effects.size(), 1u);
  EXPECT_EQ(std::get<Answer>(reaction.effects[0]).key, (FetchKey{3, kTree, 0}));
  for (const Event& event : reaction.events) state.apply(event);
  EXPECT_TRUE(state.unlogged().empty());
}

TEST(LoaderLogic, RemembersWhatAConstructorCouldNotDecodeUntilTheStepIsRetired) {
  LoaderState state(0);
  LoaderJob job = job_of(0, 1);
  job.runway = 2;
  const SampleId first{0, 0, 7}, second{0, 0, 8};
  protocol::Envelope envelope;
  envelope.from = protocol::constructor_address(4);
  envelope.message = protocol::Fetch{3, 4, {{first, "cut"}}};
  receive(job, &state, envelope);
  envelope.message = protocol::Fetch{3, 4, {{first, "cut"}, {second, "damaged"}}};
  receive(job, &state, envelope);
  envelope.message = protocol::Fetch{3, 4};
  receive(job, &state, envelope);
  const std::map<SampleId, std::string> both = {{first, "cut"}, {second, "damaged"}};
  EXPECT_EQ(state.undecodable({3, kTree, 4}), both);
  EXPECT_TRUE(state.undecodable({3, kTree, 5}).empty());
  receive(job, &state, plan_of(9));
  EXPECT_TRUE(state.undecodable({3, kTree, 4}).empty());
}

TEST(LoaderLogic, RefusesAFetchOfADeadConstructor) {
  LoaderState state(0);
  const LoaderJob job = job_of(0, 1);
  protocol::Envelope envelope;
  envelope.from = protocol::constructor_address(0);
  envelope.versions.generation = 2;
  envelope.message = protocol::PeerRestarted{envelope.from, 2};
  receive(job, &state, envelope);
  envelope.message = protocol::Fetch{0, 0};
  envelope.versions.generation = 1;
  EXPECT_TRUE(on_message(job, state, envelope).events.empty());
}

protocol::Envelope of_term(uint32_t term, protocol::Message message) {
  protocol::Envelope envelope;
  envelope.from = protocol::planner_address();
  envelope.versions.generation = term;
  envelope.message = std::move(message);
  return envelope;
}

// What the planner is told, and nothing else is done.
std::vector<protocol::Message> told(const Reaction& reaction) {
  std::vector<protocol::Message> out;
  for (const Effect& effect : reaction.effects) out.push_back(std::get<Tell>(effect).message);
  return out;
}

TEST(LoaderLogic, PromisesWithTheNewestPlanAndHeedsNoEarlierTerm) {
  LoaderState state(0);
  const LoaderJob job = job_of(0, 1);
  std::vector<protocol::Message> answer =
      told(on_message(job, state, of_term(2, protocol::TermOpened{})));
  ASSERT_EQ(answer.size(), 1u);
  EXPECT_EQ(std::get<protocol::TermPromised>(answer[0]).term, 2u);
  EXPECT_EQ(std::get<protocol::TermPromised>(answer[0]).planned, 0u) << "it was told of no plan";

  auto plan = std::make_shared<model::SlotRows>();
  plan->step = 6;
  plan->plan_hash = digest_of("plan 6");
  receive(job, &state, of_term(1, protocol::RowsPlanned{plan}));
  const protocol::Envelope opened = of_term(3, protocol::TermOpened{});
  answer = told(on_message(job, state, opened));
  ASSERT_EQ(answer.size(), 1u);
  const auto& promise = std::get<protocol::TermPromised>(answer[0]);
  EXPECT_EQ(promise.term, 3u);
  EXPECT_EQ(promise.planned, 7u);
  EXPECT_EQ(promise.plan_hash, plan->plan_hash);
  receive(job, &state, opened);
  EXPECT_TRUE(on_message(job, state, of_term(2, protocol::MetaGrant{9, 0})).events.empty());
  EXPECT_TRUE(on_message(job, state, of_term(2, protocol::TermOpened{})).effects.empty())
      << "promised to a later one";
}

TEST(LoaderLogic, InAnotherTermPostingBeginsWithTheNextGrant) {
  LoaderState state(0);
  const LoaderJob job = job_of(0, 1, 100);
  receive(job, &state, of_term(1, protocol::MetaGrant{8, 0}));
  EXPECT_EQ(windows_made(job, &state).size(), 8u);
  for (uint64_t window = 0; window < 8; ++window) state.apply(WindowPosted{window});
  receive(job, &state, of_term(1, protocol::MetaGrant{20, 8}));
  receive(job, &state, of_term(2, protocol::TermOpened{}));
  EXPECT_TRUE(windows_made(job, &state).empty()) << "what the earlier term granted counts no more";
  receive(job, &state, of_term(2, protocol::MetaGrant{7, 5}));
  EXPECT_EQ(windows_made(job, &state), (std::vector<uint64_t>{5, 6}))
      << "posted before, to a planner that is dead";
  receive(job, &state, of_term(2, protocol::MetaGrant{9, 3}));
  EXPECT_EQ(windows_made(job, &state), (std::vector<uint64_t>{7, 8}))
      << "in one term posting never goes back";
}

TEST(LoaderLogic, AWindowInWorkIsNotMadeTwice) {
  LoaderState state(0);
  const LoaderJob job = job_of(0, 1, 3);
  receive(job, &state, of_term(1, protocol::MetaGrant{9, 0}));
  EXPECT_EQ(windows_made(job, &state), (std::vector<uint64_t>{0, 1, 2}));
  state.apply(WindowPosted{1});
  receive(job, &state, of_term(2, protocol::TermOpened{}));
  receive(job, &state, of_term(2, protocol::MetaGrant{9, 0}));
  EXPECT_EQ(windows_made(job, &state), (std::vector<uint64_t>{1}))
      << "0 and 2 are on their way to whoever grants";
  EXPECT_TRUE(state.in_work(0) && state.in_work(2));
  state.apply(WindowPosted{0});
  EXPECT_EQ(windows_made(job, &state), (std::vector<uint64_t>{3}));
}

TEST(LoaderLogic, RowsThatAreNotLoggedAndTheFailureAreToldAgain) {
  LoaderState state(0);
  const LoaderJob job = job_of(0, 1);
  const SampleId first{0, 0, 7}, second{0, 0, 8};
  state.apply(HolesFound{{3, kTree, 0}, {{first, "cut"}, {second, "damaged"}}});
  state.apply(HoleLogged{first});
  state.apply(FailureTold{9, Status(Code::kSourceChanged, "later")});
  state.apply(FailureTold{6, Status(Code::kSourceChanged, "web: changed")});
  state.apply(FailureTold{8, Status(Code::kSourceChanged, "later")});
  const std::vector<protocol::Message> answer =
      told(on_message(job, state, of_term(2, protocol::TermOpened{})));
  ASSERT_EQ(answer.size(), 2u);
  const auto& promise = std::get<protocol::TermPromised>(answer[0]);
  ASSERT_EQ(promise.ends.size(), 1u) << "in one message, or something is planned in between";
  EXPECT_EQ(promise.ends[0].step, 6u) << "the earliest";
  EXPECT_EQ(promise.ends[0].status.message(), "web: changed");
  const auto& row = std::get<protocol::LateBad>(answer[1]);
  EXPECT_EQ(row.id, second) << "the other one is in the journal";
  EXPECT_EQ(row.step, 3u);
  EXPECT_EQ(row.reason, "damaged");
}

protocol::Envelope fetch_of(StepIndex step) {
  protocol::Envelope envelope;
  envelope.from = protocol::constructor_address(0);
  envelope.message = protocol::Fetch{step, 0};
  return envelope;
}

TEST(LoaderLogic, AShadowFollowsThePlansAndAnswersNobody) {
  LoaderState state(0, {}, true);
  LoaderJob job = job_of(0, 1);
  receive(job, &state, of_term(1, protocol::MetaGrant{9, 3}));
  receive(job, &state, plan_of(1));
  receive(job, &state, fetch_of(1));
  EXPECT_TRUE(next_work(job, state).effects.empty()) << "a lean one remembers";
  EXPECT_EQ(state.plans(), 1u);
  EXPECT_TRUE(state.waiting().empty());
  job.warm = true;
  const Reaction warm = next_work(job, state);
  ASSERT_EQ(warm.effects.size(), 1u);
  EXPECT_EQ(std::get<Warm>(warm.effects[0]).step, 1u);
  for (const Event& event : warm.events) state.apply(event);
  EXPECT_TRUE(next_work(job, state).effects.empty()) << "one plan at a time";
}

TEST(LoaderLogic, APromotedShadowGoesOnWhereThePlannerCountsAndHearsWhatWaited) {
  LoaderState state(0, {}, true);
  const LoaderJob job = job_of(0, 1, 9);
  receive(job, &state, of_term(1, protocol::MetaGrant{6, 3}));
  receive(job, &state, plan_of(1));
  receive(job, &state, fetch_of(1));  // its sender has heard of the promotion first
  ASSERT_EQ(state.withheld().size(), 1u);
  const auto withheld = state.withheld();
  for (const Event& event : on_promoted(job, state).events) state.apply(event);
  EXPECT_FALSE(state.standby());
  for (const auto& envelope : withheld) receive(job, &state, *envelope);
  EXPECT_EQ(state.oldest_planned(), (FetchKey{1, kTree, 0}));
  EXPECT_EQ(windows_made(job, &state), (std::vector<uint64_t>{3, 4, 5}));
}

TEST(LoaderLogic, WhatAnEarlierPlannerGrantedCountsNoMore) {
  LoaderState state(0, {}, true);
  const LoaderJob job = job_of(0, 1, 9);
  receive(job, &state, of_term(1, protocol::MetaGrant{12, 10}));
  for (const Event& event : on_promoted(job, state).events) state.apply(event);
  // The next planner was promised by the home that died, and counts from before.
  receive(job, &state, of_term(2, protocol::MetaGrant{9, 7}));
  EXPECT_EQ(windows_made(job, &state), (std::vector<uint64_t>{7, 8}));
}

// It may have been active here, been told what was meant for this generation, and made anew since.
TEST(LoaderLogic, WhoIsPromotedIsToldAgain) {
  const LoaderState state(0, {}, true);
  const Reaction promoted = on_promoted(job_of(0, 1, 9), state);
  ASSERT_EQ(promoted.effects.size(), 1u);
  const auto& promise = std::get<Tell>(promoted.effects[0]).message;
  EXPECT_EQ(std::get<protocol::TermPromised>(promise).term, 1u);
}

// A keeper that starts anew raises the generation of a slot that is active and lives: whoever heard
// of it first has refused what was said in the one before.
TEST(LoaderLogic, OneThatWasActiveSaysAgainWhatMayHaveBeenRefused) {
  LoaderState state(0);
  const LoaderJob job = job_of(0, 1, 9);
  receive(job, &state, of_term(2, protocol::TermOpened{}));
  receive(job, &state, of_term(2, protocol::MetaGrant{5, 3}));
  receive(job, &state, of_term(2, plan_of(1).message));
  receive(job, &state, fetch_of(1));
  for (const Event& event : next_work(job, state).events) state.apply(event);
  state.apply(FetchAnswered{{1, kTree, 0}});
  ASSERT_EQ(windows_made(job, &state), (std::vector<uint64_t>{3, 4}));
  state.apply(WindowPosted{3});
  const Reaction again = on_promoted(job, state);
  ASSERT_EQ(again.effects.size(), 1u);
  const auto& promise = std::get<Tell>(again.effects[0]).message;
  EXPECT_EQ(std::get<protocol::TermPromised>(promise).term, 2u);
  for (const Event& event : again.events) state.apply(event);
  EXPECT_EQ(state.waiting(), (std::set<FetchKey>{{1, kTree, 0}}));
  EXPECT_EQ(state.next_window(), 3u);
}

}  // namespace
}  // namespace overlord::loader
