// What people are told of a journal: every kind of record, and from where on a planner plans again.
#include "overlord/node/journal_look.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <future>

#include "overlord/protocol/journal/record_chain.h"
#include "overlord/protocol/state_codec.h"
#include "overlord/storage/file_journal.h"
#include "overlord/storage/temporary_directory_test.h"

namespace overlord::node {
namespace {

using protocol::JournalRecord;

model::Versions looked_versions(uint32_t tree = 1) {
  model::Versions out;
  out.attempt = 3;
  out.generation = 2;
  out.tree = tree;
  return out;
}

std::string state_at(StepIndex step, bool ended = false) {
  model::StreamState state;
  state.next_step = step;
  state.ended = ended;
  return protocol::encode_stream_state(state);
}

JournalRecord looked_start(StepIndex first) {
  return protocol::JournalStart{looked_versions(),
                                digest_of("config"),
                                digest_of("manifest"),
                                "run",
                                first,
                                state_at(first),
                                {},
                                {}};
}

JournalRecord looked_plan(StepIndex step, bool ended = false) {
  return protocol::PlanRecord{looked_versions(),
                              step,
                              step - std::min<StepIndex>(step, 3),
                              digest_of("content"),
                              digest_of("plan"),
                              state_at(step + 1, ended)};
}

class JournalLooks : public ::testing::Test {
 protected:
  std::string folder() const { return folder_.path("journal"); }
  void write(const std::vector<JournalRecord>& records) {
    auto opened = storage::FileJournal::open(folder());
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    protocol::JournalWriter writer;
    std::vector<std::string> bytes;
    for (const JournalRecord& record : records) bytes.push_back(writer.write(record));
    std::promise<Status> durable;
    opened->journal->compact(std::move(bytes),
                             [&](const Status& status) { durable.set_value(status); });
    const Status status = durable.get_future().get();
    ASSERT_TRUE(status.ok()) << status.message();
  }
  JournalLook look() const {
    Result<JournalLook> out = look_at_journal(folder());
    EXPECT_TRUE(out.ok()) << out.status().message();
    return out.ok() ? *out : JournalLook{};
  }

  storage::TemporaryDirectory folder_;
};

TEST_F(JournalLooks, PlansAreAllToldAndThoseOfTheRunwayAreMadeAgain) {
  std::vector<JournalRecord> records = {looked_start(5)};
  for (StepIndex step = 5; step < 15; ++step) records.push_back(looked_plan(step));
  write(records);
  const JournalLook told = look();
  EXPECT_EQ(told.run, "run");
  EXPECT_EQ(told.attempt, 3u);
  EXPECT_EQ(told.term, 2u);
  EXPECT_EQ(told.config, digest_of("config").hex());
  EXPECT_EQ(told.manifest, digest_of("manifest").hex());
  EXPECT_EQ(told.first_step, 5u);
  EXPECT_EQ(told.plans.size(), 10u);
  EXPECT_EQ(told.plans.back().step, 14u);
  EXPECT_EQ(told.plans.back().plan_hash, digest_of("plan").hex());
  EXPECT_EQ(told.remade_from, 11u);
  EXPECT_EQ(told.next_step, 15u);
  EXPECT_FALSE(told.ended);
  EXPECT_EQ(told.counts, "term-00000001.00000001");
  EXPECT_EQ(told.cut_bytes, 0u);
}

TEST_F(JournalLooks, EveryKindOfRecordIsTold) {
  model::CalloutFunction function{"cost_of", "v1", 1};
  write({looked_start(0), protocol::LateBadRecord{looked_versions(), 1, {2, 3, 4}, "broken"},
         protocol::TreeRecord{looked_versions(2), 3, {{"dp", 2}, {"tp", 4}}},
         protocol::FeedbackRecord{looked_versions(), 9, {1, {{0, -5, 7}}, {}}},
         protocol::CalloutRecord{
             looked_versions(), 0, model::CalloutKind::kCost, function, {1, 2, 3}},
         protocol::RetiredRecord{looked_versions(), protocol::constructor_address(0)},
         looked_plan(0, true), protocol::FailureRecord{looked_versions(), 1, bad_data("no more")}});
  const JournalLook told = look();
  EXPECT_EQ(told.records, 8u);
  ASSERT_EQ(told.late_bad.size(), 1u);
  EXPECT_EQ(told.late_bad[0].position, 4u);
  EXPECT_EQ(told.late_bad[0].reason, "broken");
  ASSERT_EQ(told.trees.size(), 1u);
  EXPECT_EQ(told.trees[0].mesh, "dp=2,tp=4");
  EXPECT_EQ(told.trees[0].version, 2u);
  ASSERT_EQ(told.feedback.size(), 1u);
  EXPECT_EQ(told.feedback[0].effective, 9u);
  ASSERT_EQ(told.callouts.size(), 1u);
  EXPECT_EQ(told.callouts[0].function, "cost_of");
  EXPECT_EQ(told.callouts[0].values, 3u);
  EXPECT_EQ(told.retired, 1u);
  EXPECT_TRUE(told.ended);
  ASSERT_TRUE(told.failure.has_value());
  EXPECT_EQ(told.failure->step, 1u);
  EXPECT_EQ(told.failure->message, "no more");
}

TEST_F(JournalLooks, RecordsThatCannotFollowNameFileAndRecord) {
  write({looked_start(0), looked_plan(0), looked_plan(2)});
  const Status damaged = look_at_journal(folder()).status();
  EXPECT_EQ(damaged.code(), Code::kBadData);
  EXPECT_NE(damaged.message().find("term-00000001.00000001: record 2"), std::string::npos)
      << damaged.message();
}

TEST_F(JournalLooks, AClaimThatWroteNothingIsNoTerm) {
  write({looked_start(0), looked_plan(0)});
  ASSERT_TRUE(storage::FileJournal::open(folder()).ok()) << "and its planner dies";
  const JournalLook told = look();
  ASSERT_EQ(told.segments.size(), 2u);
  EXPECT_EQ(told.segments[1].term, 2u);
  EXPECT_EQ(told.counts, "term-00000001.00000001");
  EXPECT_EQ(told.next_step, 1u);
}

TEST_F(JournalLooks, NoJournalIsNotFound) {
  EXPECT_EQ(look_at_journal(folder()).status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace overlord::node
