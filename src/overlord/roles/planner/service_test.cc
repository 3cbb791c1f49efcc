// A planner over a journal that is durable at once or when it is told to, and the one after it.
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "overlord/plan/place/place_tree.h"
#include "overlord/plan/select/selection.h"
#include "overlord/protocol/journal/record_chain.h"
#include "overlord/protocol/state_codec.h"
#include "overlord/roles/planner/role.h"
#include "overlord/roles/planner/term.h"

namespace overlord::planner {
namespace {

constexpr uint64_t kRowsOfWeb = 4000;

struct StillClock final : runtime::Clock {
  int64_t now_ns() override { return 0; }
};

struct OpenBook final : runtime::Journal {
  void append(std::string record, std::function<void(Status)> durable) override {
    if (answer.ok()) records.push_back(std::move(record));
    if (syncs) return durable(answer);
    waiting.push_back(std::move(durable));
  }
  void sync() {
    for (const auto& durable : std::exchange(waiting, {})) durable(answer);
  }
  void compact(std::vector<std::string> all, std::function<void(Status)> durable) override {
    if (answer.ok()) records = std::move(all);
    durable(answer);
  }
  std::vector<protocol::JournalRecord> read() const {
    protocol::JournalReader reader;
    std::vector<protocol::JournalRecord> out;
    for (const std::string& record : records) out.push_back(reader.read(record).value());
    return out;
  }

  std::vector<std::string> records;
  Status answer;
  bool syncs = true;  // or when sync() is called
  std::vector<std::function<void(Status)>> waiting;
};

PlannerJob job_with_clients(uint32_t term) {
  PlannerJob job;
  job.spec.context = 64;
  job.spec.bins = 8;
  job.spec.align = 8;
  job.spec.sources.emplace_back().name = "web";
  job.spec.mixture.stages = {{0, {model::kWeightOne}}};
  job.mesh = *model::Mesh::make({{"dp", 2}});
  job.source_rows = {kRowsOfWeb};
  job.views = plan::make_views(job.mesh, job.delivery, 1);
  job.slots = job.most_slots = {1};
  job.buckets = {0, 1};
  job.ranks = {0, 1};
  job.generation = term;
  return job;
}

// One planner; what it sends is kept, and nobody answers but the test.
struct Lone final : runtime::Transport<protocol::Envelope> {
  Lone(OpenBook* book, uint32_t term, std::shared_ptr<const JournalFold> folded = nullptr)
      : Lone(book, job_with_clients(term), std::move(folded)) {}
  Lone(OpenBook* book, PlannerJob job, std::shared_ptr<const JournalFold> folded) {
    PlannerStart start;
    start.job = std::move(job);
    start.state = plan::initial_state(start.job.spec);
    if (folded) start.state = protocol::decode_stream_state(folded->start().state).value();
    start.first_windows = {0};
    start.folded = std::move(folded);
    PlannerSeams seams;
    seams.transport = this;
    seams.journal = book;
    seams.clock = &clock;
    seams.on_loop = [this](runtime::Task task) { tasks.push_back(std::move(task)); };
    seams.superseded = [this](const Status& status) { superseded = status; };
    planner = std::make_unique<Planner>(std::move(start), std::move(seams));
    planner->start();
    run();
  }

  void send(protocol::Envelope envelope) override { sent.push_back(std::move(envelope)); }
  void run() {
    for (; !tasks.empty(); tasks.pop_front()) tasks.front()();
  }
  void hear(const protocol::Address& from, protocol::Message message) {
    protocol::Envelope envelope;
    envelope.from = from;
    envelope.message = std::move(message);
    planner->receive(envelope);
    run();
  }
  void post_everything() {
    auto window = std::make_shared<model::MetaWindow>();
    for (uint64_t row = 0; row < kRowsOfWeb; ++row) window->tokens.push_back(1 + row * 7 % 60);
    hear(protocol::loader_address(0, 0), protocol::MetaPosted{0, window});
  }
  // Of one constructor, in order.
  std::vector<model::PlanPtr> plans() const {
    std::vector<model::PlanPtr> out;
    for (const protocol::Envelope& envelope : sent) {
      const auto* told = std::get_if<protocol::PlanPublished>(&envelope.message);
      if (told && envelope.to == protocol::constructor_address(0)) out.push_back(told->plan);
    }
    return out;
  }
  size_t told_of_term(protocol::RoleKind kind) const {
    size_t count = 0;
    for (const protocol::Envelope& envelope : sent) {
      count += envelope.to.kind == kind &&
               std::holds_alternative<protocol::TermOpened>(envelope.message);
    }
    return count;
  }

  StillClock clock;
  std::deque<runtime::Task> tasks;
  std::vector<protocol::Envelope> sent;
  std::optional<Status> superseded;
  std::unique_ptr<Planner> planner;
};

// Six plans, of which two are done with.
std::vector<model::PlanPtr> first_life(OpenBook* book) {
  Lone first(book, 1);
  first.post_everything();
  for (const uint32_t bucket : {0, 1}) {
    first.hear(protocol::constructor_address(bucket), protocol::Acknowledged{2});
  }
  return first.plans();
}

std::shared_ptr<const JournalFold> folded_from(const OpenBook& book) {
  auto fold = std::make_shared<JournalFold>();
  for (const protocol::JournalRecord& record : book.read()) EXPECT_TRUE(fold->apply(record).ok());
  return fold;
}

constexpr auto kRoles =
    std::to_array({protocol::RoleKind::kLoader, protocol::RoleKind::kConstructor});

TEST(PlannerService, TheNextTermMakesTheSamePlansAndTellsClientsWhenAllAreMade) {
  OpenBook book;
  const std::vector<model::PlanPtr> before = first_life(&book);
  ASSERT_EQ(before.size(), 6u);
  Lone next(&book, 2, folded_from(book));
  const size_t records = book.records.size();
  EXPECT_EQ(next.planner->probe().next_step, 6u) << "the earlier term's plans are known at once";
  ASSERT_EQ(next.sent.size(), 3u)
      << "one loader and two constructors are asked, nothing else is said";
  for (const protocol::RoleKind kind : kRoles) EXPECT_GT(next.told_of_term(kind), 0u);
  for (const protocol::Envelope& envelope : next.sent) EXPECT_EQ(envelope.versions.generation, 2u);

  next.hear(protocol::loader_address(0, 0), protocol::TermPromised{2, 6, before[5]->plan_hash});
  next.hear(protocol::constructor_address(0), protocol::TermPromised{2, 6, before[5]->plan_hash});
  EXPECT_EQ(next.sent.size(), 3u) << "nobody gets anything before all have promised";
  next.hear(protocol::constructor_address(1), protocol::TermPromised{2, 6, before[5]->plan_hash});
  EXPECT_TRUE(next.plans().empty()) << "no metadata yet";
  EXPECT_EQ(next.told_of_term(protocol::RoleKind::kClient), 0u);

  next.post_everything();
  const std::vector<model::PlanPtr> again = next.plans();
  ASSERT_EQ(again.size(), 4u) << "from the first that is kept on, though two are done with";
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(again[i]->plan_hash, before[i]->plan_hash);
  EXPECT_EQ(book.records.size(), records) << "they are in the journal";
  EXPECT_EQ(next.planner->probe().plans_remade, 6u);
  EXPECT_EQ(next.told_of_term(protocol::RoleKind::kClient), 2u);
  const protocol::Envelope& last = next.sent.back();
  EXPECT_EQ(last.to, protocol::client_address(1)) << "behind the last plan";

  for (const uint32_t bucket : {0, 1}) {
    next.hear(protocol::constructor_address(bucket), protocol::Acknowledged{3});
  }
  EXPECT_EQ(next.plans().back()->step, 6u);
  EXPECT_EQ(book.records.size(), records + 1) << "a new plan is journalled";
  EXPECT_EQ(next.told_of_term(protocol::RoleKind::kClient), 2u) << "once";
}

TEST(PlannerService, OneSyncServesAllPlansOfTheRunwayAndNoneIsToldBeforeIt) {
  OpenBook book;
  Lone planner(&book, 1);
  book.syncs = false;
  planner.post_everything();
  EXPECT_EQ(book.waiting.size(), 4u);
  EXPECT_TRUE(planner.plans().empty());
  book.sync();
  planner.run();
  EXPECT_EQ(planner.plans().size(), 4u);
}

TEST(PlannerService, ASyncThatFailsEndsTheStreamBeforeWhatWasOnItsWay) {
  OpenBook book;
  Lone planner(&book, 1);
  planner.post_everything();
  book.syncs = false;
  for (const uint32_t bucket : {0, 1}) {
    planner.hear(protocol::constructor_address(bucket), protocol::Acknowledged{2});
  }
  book.answer = Status(Code::kResource, "sync failed");
  book.sync();
  planner.run();
  const auto& failed = std::get<protocol::StreamFailed>(planner.sent.back().message);
  EXPECT_EQ(failed.step, 4u) << "those before it were told";
  EXPECT_EQ(planner.plans().size(), 4u);
}

TEST(PlannerService, ALostRecordEndsTheStreamForAllInTheJournalToo) {
  OpenBook book;
  const std::vector<model::PlanPtr> before = first_life(&book);
  book.records.pop_back();
  Lone next(&book, 2, folded_from(book));
  next.hear(protocol::loader_address(0, 0), protocol::TermPromised{2, 5, before[4]->plan_hash});
  next.hear(protocol::constructor_address(0), protocol::TermPromised{2, 6, before[5]->plan_hash});
  next.hear(protocol::constructor_address(0), protocol::Acknowledged{6});
  next.hear(protocol::constructor_address(1), protocol::TermPromised{2, 5, before[4]->plan_hash});
  size_t told = 0;
  for (const protocol::Envelope& envelope : next.sent) {
    const auto* failed = std::get_if<protocol::StreamFailed>(&envelope.message);
    if (failed == nullptr) continue;
    ++told;
    EXPECT_EQ(failed->step, 5u);
    EXPECT_NE(failed->status.message().find("records were lost"), std::string::npos);
  }
  EXPECT_EQ(told, 2u);
  const std::vector<protocol::JournalRecord> records = book.read();
  EXPECT_EQ(std::get<protocol::FailureRecord>(records.back()).step, 5u);
  next.post_everything();
  next.hear(protocol::constructor_address(1), protocol::Acknowledged{2});
  ASSERT_EQ(next.plans().size(), 5u) << "what the journal has is still served";
  EXPECT_EQ(next.plans().back()->step, 4u);
}

TEST(PlannerService, OneWhoseJournalIsAnothersSaysNothingMore) {
  OpenBook book;
  Lone old(&book, 1);
  old.post_everything();
  const size_t said = old.sent.size();
  book.answer = Status(Code::kUnavailable, "journal: another term writes it");
  for (const uint32_t bucket : {0, 1}) {
    old.hear(protocol::constructor_address(bucket), protocol::Acknowledged{1});
  }
  ASSERT_TRUE(old.superseded.has_value());
  EXPECT_EQ(old.superseded->message(), "journal: another term writes it");
  old.hear(protocol::loader_address(0, 0),
           protocol::StreamFailed{1, Status(Code::kBadData, "cut")});
  old.hear(protocol::loader_address(0, 0),
           protocol::PeerRestarted{protocol::loader_address(0, 0), 1});
  EXPECT_EQ(old.sent.size(), said);
}

// --- Functions where the ranks are -------------------------------------------------------------

PlannerJob with_function(uint32_t term) {
  PlannerJob job = job_with_clients(term);
  job.spec.strategy.has_cost = true;
  job.spec.strategy.cost_by = {"mine", "3", 1};
  job.views = plan::make_views(job.mesh, job.delivery, 1, job.spec.strategy);
  return job;
}

struct Question {
  Rank rank = 0;
  protocol::CalloutAsked asked;

  protocol::CalloutTold answer(int64_t cost) const {
    return {asked.question, std::vector<int64_t>(asked.request->samples.size(), cost)};
  }
};

std::vector<Question> questions(const Lone& planner) {
  std::vector<Question> out;
  for (const protocol::Envelope& envelope : planner.sent) {
    const auto* asked = std::get_if<protocol::CalloutAsked>(&envelope.message);
    if (asked) out.push_back({envelope.to.index, *asked});
  }
  return out;
}

constexpr uint64_t kFirstTerm = uint64_t{1} << 32;

TEST(PlannerFunctions, TheFirstRankIsAskedAndAnAnswerCountsOnce) {
  OpenBook book;
  Lone planner(&book, with_function(1), nullptr);
  planner.post_everything();
  ASSERT_EQ(questions(planner).size(), 1u) << "one question at a time";
  const Question first = questions(planner)[0];
  EXPECT_EQ(first.rank, 0u);
  EXPECT_EQ(first.asked.question, kFirstTerm + 1);
  EXPECT_EQ(first.asked.request->function.name, "mine");
  EXPECT_EQ(planner.planner->probe().asked_rank, 0u);

  planner.hear(protocol::client_address(0), protocol::CalloutTold{kFirstTerm, {1, 2}});
  EXPECT_TRUE(planner.plans().empty()) << "of another question";
  planner.hear(protocol::client_address(0), first.answer(5));
  EXPECT_EQ(planner.plans().size(), 1u);
  ASSERT_EQ(questions(planner).size(), 2u);
  EXPECT_EQ(questions(planner)[1].asked.request->step, 1u);
  planner.hear(protocol::client_address(0), first.answer(7));
  EXPECT_EQ(planner.plans().size(), 1u) << "told twice";
  EXPECT_EQ(planner.planner->probe().callouts, 1u);
}

TEST(PlannerFunctions, ARankThatComesBackIsAskedAgainAndNoOther) {
  OpenBook book;
  Lone planner(&book, with_function(1), nullptr);
  planner.post_everything();
  const auto comes_back = [&](Rank rank, uint32_t generation) {
    const protocol::Address client = protocol::client_address(rank);
    planner.hear(client, protocol::PeerRestarted{client, generation});
  };
  comes_back(1, 2);
  EXPECT_EQ(questions(planner).size(), 1u);
  comes_back(0, 2);
  ASSERT_EQ(questions(planner).size(), 2u);
  EXPECT_EQ(questions(planner)[1].asked.question, kFirstTerm + 1) << "the same question";
  comes_back(0, 1);
  EXPECT_EQ(questions(planner).size(), 2u) << "of a generation that is gone";
}

TEST(PlannerFunctions, AnAnswerOfAnEarlierTermIsNotHeard) {
  OpenBook book;
  Lone first(&book, with_function(1), nullptr);
  first.post_everything();
  const Question before = questions(first).at(0);
  Lone next(&book, with_function(2), folded_from(book));
  for (const auto& role : {protocol::loader_address(0, 0), protocol::constructor_address(0),
                           protocol::constructor_address(1)}) {
    next.hear(role, protocol::TermPromised{2, 0, {}});
  }
  next.post_everything();
  ASSERT_EQ(questions(next).size(), 1u);
  next.hear(protocol::client_address(0), before.answer(5));
  EXPECT_TRUE(next.plans().empty());
  next.hear(protocol::client_address(0), questions(next)[0].answer(5));
  EXPECT_EQ(next.plans().size(), 1u);
}

TEST(PlannerFunctions, OneThatFailsEndsTheStreamByItsName) {
  OpenBook book;
  Lone planner(&book, with_function(1), nullptr);
  planner.post_everything();
  planner.hear(protocol::client_address(0),
               protocol::CalloutTold{kFirstTerm + 1, {}, Status(Code::kUserFunction, "raised")});
  const auto& failed = std::get<protocol::StreamFailed>(planner.sent.back().message);
  EXPECT_EQ(failed.step, 0u);
  EXPECT_EQ(failed.status.message(), "cost function mine (version 3), step 0: raised");
}

// Who is asked may be gone for good: the question is put to one that is there.
TEST(PlannerFunctions, WhereRanksChangeAnotherIsAskedAnew) {
  OpenBook book;
  Lone planner(&book, with_function(1), nullptr);
  planner.post_everything();
  const Question before = questions(planner).at(0);
  std::optional<Result<StepIndex>> first;
  planner.planner->rebuild_tree({*model::Mesh::make({{"dp", 1}}), std::nullopt, {1}},
                                [&](const Result<StepIndex>& answer) { first = answer; });
  planner.run();
  ASSERT_TRUE(first && first->ok());
  ASSERT_EQ(questions(planner).size(), 2u);
  const Question anew = questions(planner)[1];
  EXPECT_EQ(anew.rank, 1u);
  EXPECT_EQ(anew.asked.request->seats.consumers, 1u);
  planner.hear(protocol::client_address(0), before.answer(5));
  EXPECT_EQ(planner.planner->probe().callouts, 0u) << "of the ranks before";
  planner.hear(protocol::client_address(1), anew.answer(5));
  EXPECT_EQ(planner.planner->probe().callouts, 1u);
}

// Its answer was of the tree before, and is in the journal there.
TEST(PlannerFunctions, AnAnswerDoesNotOutliveTheTreeThatItIsOf) {
  OpenBook book;
  Lone planner(&book, with_function(1), nullptr);
  planner.post_everything();
  book.syncs = false;
  planner.hear(protocol::client_address(0), questions(planner)[0].answer(5));
  std::optional<Result<StepIndex>> first;
  planner.planner->rebuild_tree({*model::Mesh::make({{"dp", 1}}), std::nullopt, {1}},
                                [&](const Result<StepIndex>& answer) { first = answer; });
  planner.run();
  EXPECT_FALSE(first) << "its answer is on its way to the journal";
  book.sync();
  planner.run();
  book.syncs = true;
  book.sync();
  planner.run();
  ASSERT_TRUE(first && first->ok());
  ASSERT_EQ(questions(planner).size(), 2u) << "asked anew";
  EXPECT_EQ(questions(planner)[1].asked.request->step, 0u);
  EXPECT_EQ(questions(planner)[1].rank, 1u);
}

}  // namespace
}  // namespace overlord::planner
