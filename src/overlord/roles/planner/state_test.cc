// A planner that takes a journal over: what it knows of the plans before it, and that making them
// again leaves it where the one before it stood.
#include "overlord/roles/planner/state.h"

#include <gtest/gtest.h>

#include <string>

#include "overlord/protocol/state_codec.h"
#include "overlord/roles/planner/owners.h"
#include "overlord/roles/planner/tree.h"

namespace overlord::planner {
namespace {

constexpr StepIndex kBase = 5;  // plans 5, 6 and 7 are in the journal

model::StreamState stream_before(StepIndex step) {
  model::StreamState stream;
  stream.next_step = step;
  stream.cursors.resize(2);
  return stream;
}

model::PlanPtr made(StepIndex step) {
  auto plan = std::make_shared<model::Plan>();
  plan->step = step;
  plan->content_hash = digest_of("content " + std::to_string(step));
  plan->plan_hash = digest_of("plan " + std::to_string(step));
  plan->layers.resize(1);
  plan->state_after = std::make_shared<const model::StreamState>(stream_before(step + 1));
  return plan;
}

JournalFold journal_with(const std::vector<protocol::JournalRecord>& records = {}) {
  JournalFold fold;
  protocol::JournalStart start;
  start.first_step = 2;
  start.state = protocol::encode_stream_state(stream_before(kBase));
  start.content_chain = digest_of("contents before");
  start.plan_chain = digest_of("plans before");
  EXPECT_TRUE(fold.apply(start).ok());
  for (const protocol::JournalRecord& record : records) EXPECT_TRUE(fold.apply(record).ok());
  for (StepIndex step = kBase; step < kBase + 3; ++step) {
    const model::PlanPtr plan = made(step);
    const protocol::PlanRecord record{{},
                                      step,
                                      0,
                                      plan->content_hash,
                                      plan->plan_hash,
                                      protocol::encode_stream_state(*plan->state_after)};
    EXPECT_TRUE(fold.apply(record).ok());
  }
  return fold;
}

PlannerState taking_over(const JournalFold& fold, const std::vector<TreeChanged>& trees = {}) {
  PlannerState state(stream_before(kBase), {0, 0}, {0, 1});
  state.take_over(fold, trees);
  return state;
}

TreeChanged tree_since(StepIndex first_step, uint32_t version) {
  auto views = std::make_shared<model::ViewTable>();
  views->tree_version = version;
  views->by_rank.resize(1);
  return {first_step, {{}, views, version}};
}

void commit(PlannerState& state, const model::PlanPtr& plan) {
  state.apply(PlanMade{plan});
  state.apply(PlanCommitted{plan->step});
  state.apply(PlanReleased{plan->step});
}

TEST(TakeOver, KnowsWhatWasPlannedAndEndsWithTheSameChains) {
  PlannerState state = taking_over(journal_with());
  EXPECT_EQ(state.next_step(), kBase);
  EXPECT_EQ(state.unplanned(), kBase + 3);
  EXPECT_EQ(state.first_step(), 2u) << "of the run";
  Digest content = digest_of("contents before"), plans = digest_of("plans before");
  for (StepIndex step = kBase; step < kBase + 3; ++step) {
    EXPECT_TRUE(state.remaking());
    ASSERT_NE(state.taken(step), nullptr);
    EXPECT_EQ(state.taken(step)->plan_hash, made(step)->plan_hash);
    commit(state, made(step));
    content = chain(content, made(step)->content_hash);
    plans = chain(plans, made(step)->plan_hash);
  }
  EXPECT_FALSE(state.remaking());
  EXPECT_EQ(state.taken(kBase), nullptr);
  EXPECT_EQ(state.content_chain(), content);
  EXPECT_EQ(state.plan_chain(), plans);
}

// Every plan that is made again was published with the owners that its windows had then.
TEST(TakeOver, NobodyChangesOwnersBeforeWhatWasPublishedIsMadeAgain) {
  PlannerJob job;
  job.spec.sources.resize(2);
  job.slots = {2, 1};
  job.most_slots = {8, 1};
  PlannerState state = taking_over(journal_with());
  for (StepIndex step = kBase; step < kBase + 3; ++step) {
    Reaction early;
    wish_slots(job, state, 0, 4, "for a test", &early);
    EXPECT_TRUE(early.effects.empty()) << "before step " << step;
    commit(state, made(step));
  }
  Reaction then;
  wish_slots(job, state, 0, 4, "for a test", &then);
  EXPECT_EQ(then.effects.size(), 1u);
}

TEST(TakeOver, APlanThatWasPublishedIsNotCommittedAsAnother) {
  PlannerState state = taking_over(journal_with());
  auto other = std::make_shared<model::Plan>(*made(kBase));
  other->plan_hash = digest_of("another");
  EXPECT_DEATH(state.apply(PlanMade{other}), "a plan that was published stays what it is");
}

TEST(PlannerState, PlansAreMadeAheadOfTheJournalAndReleasedBehindIt) {
  PlannerState state(stream_before(kBase), {0, 0}, {0, 1});
  state.apply(PlanMade{made(kBase)});
  state.apply(PlanMade{made(kBase + 1)});
  EXPECT_EQ(state.unplanned(), kBase + 2);
  EXPECT_EQ(state.uncommitted(), kBase);
  EXPECT_EQ(state.unreleased(), nullptr);
  EXPECT_DEATH(state.apply(PlanReleased{kBase}), "durable plans are released");
  EXPECT_DEATH(state.apply(PlanCommitted{kBase + 1}), "commit in order");
  state.apply(PlanCommitted{kBase});
  EXPECT_EQ(state.uncommitted(), kBase + 1);
  EXPECT_EQ(state.unreleased()->step, kBase);
  EXPECT_TRUE(state.unacknowledged().empty());
  state.apply(PlanReleased{kBase});
  EXPECT_EQ(state.unreleased(), nullptr);
  EXPECT_EQ(state.unacknowledged().size(), 1u);
}

TEST(PlannerState, PlansThatNobodyHasHeardOfAreWithdrawn) {
  PlannerState state(stream_before(kBase), {0, 0}, {0, 1});
  commit(state, made(kBase));
  const model::StreamState after = state.stream();
  const Digest contents = state.content_chain();
  state.apply(PlanMade{made(kBase + 1)});
  state.apply(PlanCommitted{kBase + 1});
  state.apply(PlanMade{made(kBase + 2)});
  EXPECT_EQ(state.unheard(), kBase + 1);
  EXPECT_DEATH(state.apply(PlansWithdrawn{kBase - 1}), "what is kept can be planned anew");
  state.apply(PlansWithdrawn{kBase + 1});
  EXPECT_EQ(protocol::encode_stream_state(state.stream()), protocol::encode_stream_state(after));
  EXPECT_EQ(state.content_chain(), contents);
  EXPECT_EQ(state.unreleased(), nullptr);
  EXPECT_EQ(state.uncommitted(), kBase + 1);
  commit(state, made(kBase + 1));  // anew
  EXPECT_EQ(state.unacknowledged().size(), 2u);
}

TEST(TakeOver, HappensOnceAndAtTheStartOfTheJournal) {
  PlannerState elsewhere(stream_before(kBase + 1), {0, 0}, {0, 1});
  EXPECT_DEATH(elsewhere.take_over(journal_with(), {}), "taken over at its start");
  PlannerState state = taking_over(journal_with());
  EXPECT_DEATH(state.take_over(journal_with(), {}), "taken over once");
}

// Constructors have gone on while there was no planner: they may be done with what is made again.
TEST(TakeOver, AcknowledgementsMayBeAheadOfWhatIsMadeAgain) {
  PlannerState state = taking_over(journal_with());
  state.apply(ConstructorAcknowledged{protocol::constructor_address(0), 8});
  EXPECT_EQ(state.acknowledged(), kBase) << "the other one has not told";
  state.apply(ConstructorAcknowledged{protocol::constructor_address(1), 6});
  EXPECT_EQ(state.acknowledged(), 6u);
  commit(state, made(5));
  EXPECT_TRUE(state.unacknowledged().empty()) << "everybody is done with it";
  commit(state, made(6));
  EXPECT_EQ(state.unacknowledged().size(), 1u);
  EXPECT_DEATH(state.apply(ConstructorAcknowledged{protocol::constructor_address(0), 9}),
               "what is acknowledged was planned");
}

TEST(TakeOver, TreesOfThePastHoldAndTheirConstructorsAreThereUntilTheyRetire) {
  const PlannerState state = taking_over(journal_with(), {tree_since(3, 2), tree_since(6, 3)});
  EXPECT_EQ(state.tree_at(5)->version, 2u);
  EXPECT_EQ(state.tree_at(6)->version, 3u);
  EXPECT_EQ(state.newest_tree(1), 3u);
  ASSERT_EQ(state.constructors().size(), 4u) << "two of the job's own tree, one of each later one";
  EXPECT_EQ(state.constructor(protocol::constructor_address(0))->until, 3u);
  EXPECT_EQ(state.constructor(protocol::constructor_address(0, 2))->until, 6u);
  EXPECT_EQ(state.constructor(protocol::constructor_address(0, 2))->acknowledged, kBase);
  EXPECT_EQ(state.constructor(protocol::constructor_address(0, 3))->acknowledged, 6u);
  EXPECT_EQ(to_retire(state),
            (std::vector{protocol::constructor_address(0), protocol::constructor_address(1)}))
      << "nobody can need a step before those that are made again";
}

TEST(TakeOver, WhoHasRetiredIsNotWaitedFor) {
  PlannerState state = taking_over(journal_with(), {tree_since(6, 2)});
  for (StepIndex step = kBase; step < kBase + 3; ++step) commit(state, made(step));
  EXPECT_EQ(state.acknowledged(), kBase);
  for (const uint32_t bucket : {0, 1}) {
    state.apply(ConstructorRetired{protocol::constructor_address(bucket)});
  }
  EXPECT_EQ(state.constructor(protocol::constructor_address(1)), nullptr);
  EXPECT_EQ(state.acknowledged(), 6u);
  EXPECT_EQ(state.unacknowledged().begin()->first, 6u);
}

TEST(TakeOver, FunctionsOfUsersAreNotAskedAgainAboutWhatTheyAnswered) {
  const auto answer = [](StepIndex step, model::CalloutKind kind, int64_t value) {
    return protocol::CalloutRecord{{}, step, kind, {"f", "1"}, {value}};
  };
  PlannerState state = taking_over(journal_with(
      {answer(5, model::CalloutKind::kCost, 50), answer(6, model::CalloutKind::kCost, 60),
       answer(6, model::CalloutKind::kBalance, 61), answer(8, model::CalloutKind::kCost, 80)}));
  using Values = std::vector<int64_t>;
  EXPECT_EQ(state.callout_answers().costs, Values{50});
  EXPECT_FALSE(state.callout_answers().seats.has_value());
  commit(state, made(5));
  EXPECT_EQ(state.callout_answers().costs, Values{60});
  EXPECT_EQ(state.callout_answers().seats, Values{61});
  commit(state, made(6));
  EXPECT_FALSE(state.callout_answers().costs.has_value()) << "nobody asked about step 7";
  commit(state, made(7));
  EXPECT_EQ(state.callout_answers().costs, Values{80}) << "answered, and died before the plan";
}

TEST(TakeOver, KnowsBadRowsFeedbackAndWhereTheStreamEnds) {
  const SampleId row{1, 0, 9};
  protocol::FeedbackRecord decided;
  decided.effective = 8;
  decided.feedback.step = 6;
  decided.feedback.weights = {3, 4};
  const PlannerState state = taking_over(
      journal_with({protocol::LateBadRecord{{}, 5, row, "cut"}, decided,
                    protocol::FailureRecord{{}, 9, Status(Code::kBadData, "the end")}}));
  EXPECT_TRUE(state.late_bad_durable(row));
  EXPECT_EQ(state.late_bad(1), 1u);
  ASSERT_NE(state.feedback(6), nullptr);
  EXPECT_EQ(state.rule().step, 7u) << "the next that a rule decides";
  EXPECT_EQ(state.rule().weights, (std::vector<int64_t>{3, 4}));
  ASSERT_TRUE(state.failure().has_value());
  EXPECT_EQ(state.failure()->step, 9u);
  EXPECT_EQ(state.failure()->status.message(), "the end");
}

}  // namespace
}  // namespace overlord::planner
