// What the records of a journal come to: the same however often it was compacted in between, and
// nothing that a planner which goes on from it would miss.
#include "overlord/roles/planner/journal_fold.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "overlord/base/rng.h"
#include "overlord/protocol/state_codec.h"

namespace overlord::planner {
namespace {

using protocol::JournalRecord;

std::string state_before(StepIndex step) {
  model::StreamState state;
  state.next_step = step;
  state.cursors.resize(2);
  state.cursors[0].position = 10 * step;
  return protocol::encode_stream_state(state);
}

protocol::JournalStart start_at(StepIndex step) {
  protocol::JournalStart start;
  start.run = "run";
  start.first_step = start.versions.generation = 1;
  start.state = state_before(step);
  return start;
}

// All but the last `out` plans are done with.
protocol::PlanRecord planned(StepIndex step, StepIndex out = 4) {
  const std::string name = std::to_string(step);
  const StepIndex done = step + 1 - std::min(step + 1, out);
  return {{},
          step,
          done,
          digest_of("content " + name),
          digest_of("plan " + name),
          state_before(step + 1)};
}

protocol::FeedbackRecord fed_back(StepIndex step, StepIndex effective) {
  protocol::FeedbackRecord record;
  record.effective = effective;
  record.feedback.step = step;
  record.feedback.losses = {{0, static_cast<int64_t>(step), 7}};
  return record;
}

protocol::CalloutRecord answered_at(StepIndex step) {
  return {{}, step, model::CalloutKind::kCost, {"cost", "1"}, {int64_t(step), 2}};
}

protocol::TreeRecord tree_from(StepIndex step, uint32_t version) {
  protocol::TreeRecord record;
  record.versions.tree = version;
  record.first_step = step;
  record.axes = {{"dp", 2 * version}};
  return record;
}

JournalFold fold_of(const std::vector<JournalRecord>& records) {
  JournalFold fold;
  for (const JournalRecord& record : records) {
    const Status applied = fold.apply(record);
    EXPECT_TRUE(applied.ok()) << applied.message();
  }
  return fold;
}

std::vector<std::string> bytes_of(const JournalFold& fold) {
  std::vector<std::string> out;
  for (const JournalRecord& record : fold.records()) out.push_back(protocol::encode_record(record));
  return out;
}

// Everything that a journal may hold, in an order that a planner could have written.
std::vector<JournalRecord> random_journal(uint64_t seed) {
  const StepIndex out_at_once = 1 + seed % 6;
  uint64_t draws = 0;
  const auto below = [&](uint64_t n) { return uniform_below(seed, ++draws, 0, n); };
  StepIndex step = below(3);
  std::vector<JournalRecord> out = {start_at(step)};
  StepIndex reported = step;
  uint32_t tree = 1;
  for (int i = 0; i < 60; ++i) {
    switch (below(13)) {
      case 0:
        out.emplace_back(protocol::LateBadRecord{{}, step, {1, 0, below(20)}, "cut"});
        break;
      case 1:
        if (reported < step) {
          out.emplace_back(fed_back(reported, reported + 2));
          ++reported;
        }
        break;
      case 2:
        out.emplace_back(tree_from(step + tree, tree + 1));
        ++tree;
        break;
      case 3:
        out.emplace_back(answered_at(step));
        break;
      case 4:
        if (below(4) == 0) {
          const Status status(Code::kBadData, "reason " + std::to_string(i));
          out.emplace_back(protocol::FailureRecord{{}, step + below(5), status});
        }
        break;
      case 5:
        out.emplace_back(
            protocol::RetiredRecord{start_at(0).versions, protocol::constructor_address(i, tree)});
        break;
      case 6:
        out.emplace_back(protocol::OwnersRecord{{}, {0, {{below(20), 3}}}, 0, "busy"});
        break;
      default:
        out.emplace_back(planned(step, out_at_once));
        ++step;
    }
  }
  return out;
}

TEST(JournalFold, CompactedAnywhereItComesToTheSame) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const std::vector<JournalRecord> all = random_journal(seed);
    const JournalFold whole = fold_of(all);
    const size_t cut = 1 + uniform_below(seed, 0, 1, all.size());
    JournalFold resumed = fold_of(fold_of({all.begin(), all.begin() + cut}).records());
    for (size_t i = cut; i < all.size(); ++i) ASSERT_TRUE(resumed.apply(all[i]).ok());
    ASSERT_EQ(bytes_of(resumed), bytes_of(whole)) << seed << ", cut at " << cut;
    ASSERT_EQ(resumed.base_step(), whole.base_step());
    ASSERT_EQ(resumed.next_step(), whole.next_step());
    ASSERT_EQ(bytes_of(fold_of(whole.records())), bytes_of(whole)) << seed;
  }
}

TEST(JournalFold, BeginsWithAStart) {
  JournalFold fold;
  const Status refused = fold.apply(planned(0));
  EXPECT_EQ(refused.code(), Code::kBadData);
  EXPECT_EQ(refused.message(), "journal: its first record is no start");
  EXPECT_FALSE(fold.started());
  ASSERT_TRUE(fold.apply(start_at(0)).ok());
  EXPECT_TRUE(fold.apply(planned(0)).ok());
}

TEST(JournalFold, AStartThatCannotBeReadChangesNothing) {
  JournalFold fold = fold_of({start_at(3), planned(3)});
  protocol::JournalStart cut = start_at(3);
  cut.state.resize(1);
  EXPECT_FALSE(fold.apply(cut).ok());
  EXPECT_EQ(fold.next_step(), 4u);
  EXPECT_EQ(fold.plans().size(), 1u);
}

TEST(JournalFold, AnotherStepThanTheNextIsRefusedByName) {
  JournalFold fold = fold_of({start_at(3), planned(3)});
  for (const StepIndex wrong : {3, 5}) {
    const Status refused = fold.apply(planned(wrong));
    EXPECT_EQ(refused.code(), Code::kBadData);
    EXPECT_EQ(refused.message(),
              "journal: plan of step " + std::to_string(wrong) + ", where step 4 follows");
  }
  EXPECT_EQ(fold.next_step(), 4u) << "what is refused leaves no trace";
}

TEST(JournalFold, TheStateMovesBehindTheRunwayWithItsChains) {
  JournalFold fold = fold_of({start_at(2)});
  Digest content, plan;
  for (StepIndex step = 2; step < 12; ++step) {
    ASSERT_TRUE(fold.apply(planned(step, 3)).ok());
    EXPECT_EQ(fold.next_step(), step + 1);
    ASSERT_LE(fold.plans().size(), 3u);
    if (step < 5) continue;
    const StepIndex gone = step - 3;
    content = chain(content, planned(gone, 3).content_hash);
    plan = chain(plan, planned(gone, 3).plan_hash);
    EXPECT_EQ(fold.base_step(), gone + 1);
    EXPECT_EQ(fold.plans().front().step, gone + 1);
    EXPECT_EQ(fold.start().state, state_before(gone + 1));
    EXPECT_EQ(fold.start().content_chain, content);
    EXPECT_EQ(fold.start().plan_chain, plan);
  }
  EXPECT_EQ(fold.start().first_step, 1u) << "of the run, whatever is forgotten";
}

TEST(JournalFold, FeedbackIsKeptUntilItHasCountedAndTheNewestAlways) {
  JournalFold fold = fold_of({start_at(0), planned(0, 2), planned(1, 2)});
  ASSERT_TRUE(fold.apply(fed_back(0, 2)).ok());
  ASSERT_TRUE(fold.apply(fed_back(1, 3)).ok());
  for (StepIndex step = 2; step < 4; ++step) ASSERT_TRUE(fold.apply(planned(step, 2)).ok());
  ASSERT_EQ(fold.base_step(), 2u);
  EXPECT_TRUE(fold.feedback().contains(0)) << "step 2 is made again with it";
  ASSERT_TRUE(fold.apply(planned(4, 2)).ok());
  EXPECT_FALSE(fold.feedback().contains(0));
  for (StepIndex step = 5; step < 9; ++step) ASSERT_TRUE(fold.apply(planned(step, 2)).ok());
  EXPECT_TRUE(fold.feedback().contains(1)) << "a rule decides the step behind it";
}

TEST(JournalFold, AnswersOfFunctionsGoWithTheirStep) {
  JournalFold fold = fold_of({start_at(0)});
  for (StepIndex step = 0; step < 5; ++step) {
    ASSERT_TRUE(fold.apply(answered_at(step)).ok());
    ASSERT_TRUE(fold.apply(planned(step, 2)).ok());
  }
  ASSERT_TRUE(fold.apply(answered_at(5)).ok());
  std::vector<StepIndex> kept;
  for (const protocol::CalloutRecord& record : fold.callouts()) kept.push_back(record.step);
  EXPECT_EQ(kept, (std::vector<StepIndex>{3, 4, 5})) << "of the steps that are made again, or next";
}

// A tree holds until the next one, however long ago it was: nothing else in the journal says so.
TEST(JournalFold, TreesRetiredOnesAndBadRowsStay) {
  JournalFold fold = fold_of({start_at(0), tree_from(0, 2), tree_from(2, 3)});
  const protocol::Address gone = protocol::constructor_address(1);
  ASSERT_TRUE(fold.apply(protocol::RetiredRecord{{}, gone}).ok());
  const SampleId row{1, 0, 5};
  ASSERT_TRUE(fold.apply(protocol::LateBadRecord{{}, 0, row, "first"}).ok());
  ASSERT_TRUE(fold.apply(protocol::LateBadRecord{{}, 0, row, "again"}).ok());
  for (StepIndex step = 0; step < 9; ++step) ASSERT_TRUE(fold.apply(planned(step, 1)).ok());
  ASSERT_EQ(fold.trees().size(), 2u);
  EXPECT_EQ(fold.trees()[1].first_step, 2u);
  EXPECT_EQ(fold.retired(), std::vector{gone});
  ASSERT_EQ(fold.late_bad().size(), 1u) << "a row counts once";
  EXPECT_EQ(fold.late_bad().at(row).reason, "first");
}

TEST(JournalFold, ATreeTakesBackWhatNobodyHadHeardOf) {
  JournalFold fold = fold_of({start_at(3), planned(3), planned(4), answered_at(5), planned(5)});
  ASSERT_TRUE(fold.apply(tree_from(4, 2)).ok());
  EXPECT_EQ(fold.next_step(), 4u);
  EXPECT_TRUE(fold.callouts().empty()) << "they were asked about another tree";
  ASSERT_TRUE(fold.apply(planned(4)).ok());
  EXPECT_EQ(fold.next_step(), 5u);
}

TEST(JournalFold, TheEarliestFailureHolds) {
  JournalFold fold = fold_of({start_at(0)});
  const auto failed_at = [&](StepIndex step, const char* why) {
    return fold.apply(protocol::FailureRecord{{}, step, Status(Code::kBadData, why)}).ok();
  };
  ASSERT_TRUE(failed_at(6, "six") && failed_at(4, "four") && failed_at(4, "four again") &&
              failed_at(5, "five"));
  ASSERT_TRUE(fold.failure().has_value());
  EXPECT_EQ(fold.failure()->step, 4u);
  EXPECT_EQ(fold.failure()->status.message(), "four");
}

TEST(JournalFold, ALaterStartReplacesAllBeforeIt) {
  JournalFold fold = fold_of(random_journal(7));
  ASSERT_TRUE(fold.apply(start_at(5)).ok());
  EXPECT_EQ(bytes_of(fold), bytes_of(fold_of({start_at(5)})));
}

TEST(JournalFold, AnotherTermIsSaidByItsStart) {
  JournalFold fold = fold_of({start_at(0), planned(0)});
  model::Versions versions;
  versions.generation = 3;
  fold.open_term(versions);
  const std::vector<JournalRecord> records = fold.records();
  EXPECT_EQ(std::get<protocol::JournalStart>(records.front()).versions.generation, 3u);
  EXPECT_DEATH(fold.open_term(versions), "a term follows those before it");
}

}  // namespace
}  // namespace overlord::planner
