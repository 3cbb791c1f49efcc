// Opening a term: who is heard from when on, and what a role may know that the journal does not.
#include "overlord/roles/planner/term.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "overlord/protocol/state_codec.h"

namespace overlord::planner {
namespace {

using protocol::Address;
using protocol::Message;

constexpr uint32_t kTerm = 3;

model::PlanPtr plan_at(StepIndex step) {
  auto plan = std::make_shared<model::Plan>();
  plan->step = step;
  plan->content_hash = digest_of("content " + std::to_string(step));
  plan->plan_hash = digest_of("plan " + std::to_string(step));
  plan->layers.resize(1);
  auto after = std::make_shared<model::StreamState>();
  after->next_step = step + 1;
  after->cursors.resize(2);
  plan->state_after = std::move(after);
  return plan;
}

// Plans 5, 6 and 7 are in the journal; nobody has been asked yet.
JournalFold three_plans(const std::vector<protocol::JournalRecord>& more = {}) {
  JournalFold fold;
  protocol::JournalStart start;
  start.state = protocol::encode_stream_state(*plan_at(4)->state_after);
  EXPECT_TRUE(fold.apply(start).ok());
  for (StepIndex step = 5; step < 8; ++step) {
    const model::PlanPtr plan = plan_at(step);
    EXPECT_TRUE(fold.apply(protocol::PlanRecord{{},
                                                step,
                                                0,
                                                plan->content_hash,
                                                plan->plan_hash,
                                                protocol::encode_stream_state(*plan->state_after)})
                    .ok());
  }
  for (const protocol::JournalRecord& record : more) EXPECT_TRUE(fold.apply(record).ok());
  return fold;
}

struct Opening {
  explicit Opening(const JournalFold& fold = three_plans())
      : state(*plan_at(4)->state_after, {0, 0}, {0, 1}) {
    job.spec.sources.resize(2);
    job.spec.mixture.stages = {{0, {model::kWeightOne, model::kWeightOne}}};
    job.slots = job.most_slots = {2, 1};
    job.buckets = {0, 1};
    job.generation = kTerm;
    job.ranks = {0, 1};
    state.take_over(fold, {});
    apply(must_promise(job, state));
  }

  void apply(const std::vector<Event>& events) {
    for (const Event& event : events) state.apply(event);
  }
  Reaction hear(const Address& from, Message message, uint32_t generation = 1) {
    protocol::Envelope envelope;
    envelope.from = from;
    envelope.versions.generation = generation;
    envelope.message = std::move(message);
    Reaction reaction = on_message(job, state, envelope);
    apply(reaction.events);
    return reaction;
  }
  Reaction promise(const Address& from, StepIndex planned = 0, Digest hash = {}) {
    return hear(from, protocol::TermPromised{kTerm, planned, hash});
  }
  void all_promise() {
    const std::set<Address> roles = state.unpromised();
    for (const Address& role : roles) promise(role);
  }

  PlannerJob job;
  PlannerState state;
};

std::vector<Address> told_of_term(const Reaction& reaction) {
  std::vector<Address> out;
  for (const Effect& effect : reaction.effects) {
    const auto& send = std::get<Send>(effect);
    if (std::holds_alternative<protocol::TermOpened>(send.message)) out.push_back(send.to);
  }
  return out;
}

const Address kLoader = protocol::loader_address(0, 1);
const Address kConstructor = protocol::constructor_address(1);

TEST(Term, EveryLoaderAndConstructorIsAskedAndNoClient) {
  Opening term;
  const std::vector<Address> all = {protocol::loader_address(0, 0), protocol::loader_address(0, 1),
                                    protocol::loader_address(1, 0),
                                    protocol::constructor_address(0),
                                    protocol::constructor_address(1)};
  EXPECT_EQ(told_of_term(open_term(term.state)), all);
  term.promise(kLoader);
  EXPECT_EQ(told_of_term(open_term(term.state)).size(), all.size() - 1)
      << "asks those that have not";
}

TEST(Term, NobodyIsHeardBeforeItPromises) {
  Opening term;
  const auto deaf = [&](const Address& from, const Message& message) {
    const Reaction reaction = term.hear(from, message);
    return reaction.events.empty() && reaction.effects.empty();
  };
  const Status broken(Code::kBadData, "cut");
  EXPECT_TRUE(deaf(kLoader, protocol::MetaPosted{0, std::make_shared<model::MetaWindow>()}));
  EXPECT_TRUE(deaf(kLoader, protocol::LateBad{6, {0, 0, 1}, "cut"}));
  EXPECT_TRUE(deaf(kLoader, protocol::StreamFailed{8, broken}));
  EXPECT_TRUE(deaf(kConstructor, protocol::Acknowledged{6}));
  term.promise(kConstructor);
  EXPECT_FALSE(deaf(kConstructor, protocol::Acknowledged{6})) << "though others have not";
  EXPECT_EQ(term.state.constructor(kConstructor)->acknowledged, 6u);
  EXPECT_TRUE(deaf(kLoader, protocol::LateBad{6, {0, 0, 1}, "cut"}));
  term.promise(kLoader);
  EXPECT_FALSE(deaf(kLoader, protocol::LateBad{6, {0, 0, 1}, "cut"}));
}

TEST(Term, APromiseToAnEarlierTermDoesNotCount) {
  Opening term;
  EXPECT_TRUE(term.hear(kLoader, protocol::TermPromised{kTerm - 1, 99, {}}).effects.empty());
  EXPECT_TRUE(term.state.unpromised().contains(kLoader));
  EXPECT_TRUE(term.promise(kLoader).effects.empty());
  EXPECT_FALSE(term.state.unpromised().contains(kLoader));
}

// Records that were durable are gone: what this planner would plan could be something else.
TEST(Term, ARoleAheadOfTheJournalEndsTheStreamByName) {
  Opening term;
  EXPECT_TRUE(
      term.promise(protocol::constructor_address(0), 8, plan_at(7)->plan_hash).effects.empty())
      << "as far as the journal";
  const Reaction ahead = term.promise(kConstructor, 10, plan_at(9)->plan_hash);
  ASSERT_EQ(ahead.effects.size(), 1u);
  const auto& fail = std::get<Fail>(ahead.effects[0]);
  EXPECT_EQ(fail.step, 8u) << "what the journal has is still served";
  EXPECT_EQ(fail.status.code(), Code::kBadData);
  EXPECT_EQ(
      fail.status.message(),
      "journal: the planner of term 3 found plans before step 8, and constructor 1.0 was told "
      "of step 9: records were lost; restart from the last checkpoint");
  // It follows at once, before the failure is durable.
  const Reaction done = term.hear(kConstructor, protocol::Acknowledged{9});
  ASSERT_EQ(done.events.size(), 1u);
  EXPECT_EQ(std::get<ConstructorAcknowledged>(done.events[0]).acknowledged, 8u)
      << "of what the journal has, so that others are served up to there";
  term.apply({Failed{fail.step, fail.status}});
  EXPECT_TRUE(term.promise(kLoader, 10).effects.empty()) << "the stream ends once";
}

TEST(Term, AnotherPlanThanTheJournalsNamesBoth) {
  Opening term;
  const Digest other = digest_of("another");
  const Reaction reaction = term.promise(kLoader, 7, other);
  ASSERT_EQ(reaction.effects.size(), 1u);
  const auto& fail = std::get<Fail>(reaction.effects[0]);
  EXPECT_EQ(fail.step, 6u);
  EXPECT_EQ(fail.status.message(), "journal: the plan of step 6 differs from that of loader 0.1: " +
                                       plan_at(6)->plan_hash.hex() + " here, " + other.hex() +
                                       " there; restart from the last checkpoint");
  EXPECT_TRUE(term.promise(kConstructor, 7).effects.empty()) << "it has acknowledged its newest";
  EXPECT_TRUE(term.promise(kConstructor, 3, other).effects.empty()) << "long done with";
}

TEST(Term, APlanThatIsMadeAgainMustBeTheSame) {
  const Opening term;
  EXPECT_TRUE(check_remade(term.state, *plan_at(5)).ok());
  model::Plan other = *plan_at(5);
  other.plan_hash = digest_of("elsewhere");
  std::string why = check_remade(term.state, other).message();
  EXPECT_NE(why.find("step 5 was planned again and is placed otherwise: " +
                     plan_at(5)->plan_hash.hex() + " here, " + other.plan_hash.hex()),
            std::string::npos)
      << why;
  other.content_hash = digest_of("others");
  why = check_remade(term.state, other).message();
  EXPECT_NE(why.find("holds something else: " + plan_at(5)->content_hash.hex()), std::string::npos)
      << why;
}

TEST(Term, ARoleThatRestartsWhileTheTermOpensIsAskedAgain) {
  Opening term;
  term.promise(kLoader);
  const Reaction again = term.hear(kLoader, protocol::PeerRestarted{kLoader, 2}, 2);
  EXPECT_EQ(told_of_term(again), std::vector{kLoader});
  EXPECT_EQ(again.effects.size(), 1u) << "no grant and no plan before it promises";
  EXPECT_TRUE(term.state.unpromised().contains(kLoader));
  EXPECT_TRUE(term.hear(kLoader, protocol::TermPromised{kTerm, 0, {}}, 1).events.empty())
      << "the dead one promises for nobody";
  EXPECT_TRUE(term.state.unpromised().contains(kLoader));
  term.hear(kLoader, protocol::TermPromised{kTerm, 0, {}}, 2);
  EXPECT_FALSE(term.state.unpromised().contains(kLoader));
  const Address client = protocol::client_address(0), gone = protocol::constructor_address(0, 7);
  EXPECT_TRUE(told_of_term(term.hear(client, protocol::PeerRestarted{client, 2}, 2)).empty());
  EXPECT_TRUE(told_of_term(term.hear(gone, protocol::PeerRestarted{gone, 2}, 2)).empty())
      << "of a tree that is not";
}

TEST(Term, ASecondPromiseIsAnsweredWithABrief) {
  Opening term;
  EXPECT_TRUE(term.promise(kConstructor).effects.empty());
  EXPECT_TRUE(term.promise(kConstructor).effects.empty()) << "others have not promised";
  term.all_promise();
  term.apply(on_opened(term.job, term.state).events);
  for (StepIndex step = 5; step < 8; ++step)
    term.apply({PlanMade{plan_at(step)}, PlanCommitted{step}, PlanReleased{step}});
  term.hear(kConstructor, protocol::Acknowledged{6});
  std::vector<StepIndex> briefed;
  for (const Effect& effect : term.promise(kConstructor).effects) {
    const auto& send = std::get<Send>(effect);
    EXPECT_EQ(send.to, kConstructor);
    const auto* published = std::get_if<protocol::PlanPublished>(&send.message);
    if (published != nullptr) briefed.push_back(published->plan->step);
  }
  EXPECT_EQ(briefed, (std::vector<StepIndex>{6, 7}));
  const Reaction loader = term.promise(kLoader);
  ASSERT_FALSE(loader.effects.empty()) << "it forgot its grant when it heard of the term again";
  EXPECT_EQ(std::get<protocol::MetaGrant>(std::get<Send>(loader.effects[0]).message).window_limit,
            term.state.grant(0));
}

TEST(Term, ReportsAreHeardWhenAllIsMadeAgain) {
  Opening term;
  const Address client = protocol::client_address(1);
  const auto deaf = [&] { return term.hear(client, protocol::Report{}).effects.empty(); };
  EXPECT_TRUE(deaf());
  term.all_promise();
  for (StepIndex step = 5; step < 8; ++step) {
    EXPECT_TRUE(deaf()) << "a step that was consumed would seem too early: " << step;
    term.apply({PlanMade{plan_at(step)}, PlanCommitted{step}, PlanReleased{step}});
  }
  EXPECT_FALSE(deaf());
}

TEST(Term, AStreamThatHasFailedFailsInTheNextTermToo) {
  const Status end(Code::kBadData, "the end");
  Opening term(three_plans({protocol::FailureRecord{{}, 8, end}}));
  EXPECT_DEATH(on_opened(term.job, term.state), "all have promised");
  term.all_promise();
  std::vector<Address> told;
  for (const Effect& effect : on_opened(term.job, term.state).effects) {
    const auto& send = std::get<Send>(effect);
    const auto* failed = std::get_if<protocol::StreamFailed>(&send.message);
    if (failed == nullptr) continue;
    EXPECT_EQ(failed->step, 8u);
    EXPECT_EQ(failed->status.message(), "the end");
    told.push_back(send.to);
  }
  EXPECT_EQ(told,
            (std::vector{protocol::constructor_address(0), protocol::constructor_address(1)}));
  EXPECT_TRUE(term.hear(kLoader, protocol::StreamFailed{8, end}).effects.empty()) << "told again";
}

}  // namespace
}  // namespace overlord::planner
