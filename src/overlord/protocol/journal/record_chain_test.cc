#include "overlord/protocol/journal/record_chain.h"

#include <gtest/gtest.h>

#include <vector>

#include "overlord/protocol/journal/random_records_test.h"
#include "overlord/protocol/largest_allocation_test.h"
#include "overlord/protocol/state_codec.h"

namespace overlord::protocol {
namespace {

// Records of all kinds behind a start, now and then another start; plans have states that follow
// each other, or texts that do not.
std::vector<JournalRecord> random_journal(uint64_t seed, size_t count, uint32_t sources) {
  RandomFields random(seed);
  std::vector<JournalRecord> records;
  model::StreamState state = *random_state(random, sources);
  while (records.size() < count) {
    JournalRecord record = random_record(random, records.empty() ? 0 : random.below(kRecordKinds));
    if (auto* start = std::get_if<JournalStart>(&record)) {
      if (random.below(4) == 0) state = *random_state(random, 1 + sources);
      start->state = encode_stream_state(state);
    } else if (auto* plan = std::get_if<PlanRecord>(&record); plan && random.below(4) > 0) {
      move_cursors(random, 2, &state);
      plan->state_after = encode_stream_state(state);
    }
    records.push_back(std::move(record));
  }
  return records;
}

std::vector<std::string> written(const std::vector<JournalRecord>& records) {
  JournalWriter writer;
  std::vector<std::string> out;
  for (const JournalRecord& record : records) out.push_back(writer.write(record));
  return out;
}

JournalReader reader_behind(const std::vector<std::string>& journal, size_t count) {
  JournalReader reader;
  for (size_t i = 0; i < count; ++i) EXPECT_TRUE(reader.read(journal[i]).ok());
  return reader;
}

bool is_plan(const JournalRecord& record) { return std::holds_alternative<PlanRecord>(record); }

TEST(RecordChain, GivesEveryRecordBackWithItsStateWhole) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const auto sources = static_cast<uint32_t>(1 + seed % 20);
    const std::vector<JournalRecord> records = random_journal(seed, 40, sources);
    const std::vector<std::string> journal = written(records);
    JournalReader reader;
    for (size_t i = 0; i < records.size(); ++i) {
      const auto read = reader.read(journal[i]);
      ASSERT_TRUE(read.ok()) << "seed " << seed << ": " << read.status().message();
      ASSERT_EQ(encode_record(*read), encode_record(records[i])) << "seed " << seed;
    }
  }
}

TEST(RecordChain, OnlyPlansAreWrittenOtherwise) {
  const std::vector<JournalRecord> records = random_journal(1, 60, 5);
  const std::vector<std::string> journal = written(records);
  for (size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(journal[i] == encode_record(records[i]), !is_plan(records[i]));
  }
}

TEST(RecordChain, EveryTruncationIsRefused) {
  const std::vector<std::string> journal = written(random_journal(2, 12, 3));
  for (size_t i = 0; i < journal.size(); ++i) {
    for (size_t size = 0; size < journal[i].size(); ++size) {
      JournalReader reader = reader_behind(journal, i);
      const auto read = reader.read(std::string_view(journal[i]).substr(0, size));
      EXPECT_EQ(read.status().code(), Code::kBadData) << "record " << i << ", size " << size;
    }
  }
}

TEST(RecordChain, EveryFlippedBitIsRefusedOrAnotherRecord) {
  const std::vector<JournalRecord> records = random_journal(3, 12, 3);
  std::vector<std::string> journal = written(records);
  for (size_t i = 0; i < journal.size(); ++i) {
    for (size_t bit = 0; bit < journal[i].size() * 8; ++bit) {
      flip(&journal[i], bit);
      const auto read = reader_behind(journal, i).read(journal[i]);
      if (read.ok()) {
        std::vector<JournalRecord> others(records.begin(), records.begin() + i);
        others.push_back(*read);
        EXPECT_EQ(written(others).back(), journal[i]) << "record " << i << ", bit " << bit;
      }
      flip(&journal[i], bit);
    }
  }
}

PlanRecord plan_of(StepIndex step, std::string state_after) {
  PlanRecord plan;
  plan.step = step;
  plan.state_after = std::move(state_after);
  return plan;
}

JournalStart start_of(std::string state) {
  JournalStart start;
  start.state = std::move(state);
  return start;
}

TEST(RecordChain, APlanWithoutAStartIsRefused) {
  const std::vector<std::string> journal = written({start_of("a"), plan_of(7, "b")});
  const Status status = JournalReader().read(journal[1]).status();
  EXPECT_EQ(status.code(), Code::kBadData);
  EXPECT_NE(status.message().find("plan of step 7: no start before it"), std::string::npos);
}

TEST(RecordChain, AWriterNeedsAStartToo) {
  EXPECT_DEATH(JournalWriter().write(plan_of(7, "b")), "behind a start");
}

TEST(RecordChain, APlanThatIsMissingIsNoticed) {
  const std::vector<std::string> journal =
      written({start_of("a"), plan_of(7, "b"), plan_of(8, "c"), plan_of(9, "d"), plan_of(10, "c")});
  JournalReader reader = reader_behind(journal, 2);
  const Status status = reader.read(journal[3]).status();
  EXPECT_EQ(status.code(), Code::kBadData);
  EXPECT_NE(status.message().find("plan of step 9"), std::string::npos);
}

TEST(RecordChain, ARefusedRecordBreaksTheChainUntilTheNextStart) {
  const std::vector<std::string> journal =
      written({start_of("a"), plan_of(7, "b"), LateBadRecord{{}, 7, {}, "cut"}, plan_of(8, "c"),
               start_of("c"), plan_of(9, "d")});
  JournalReader reader = reader_behind(journal, 2);
  EXPECT_FALSE(reader.read("torn").ok());
  EXPECT_TRUE(reader.read(journal[2]).ok());
  EXPECT_EQ(reader.read(journal[3]).status().code(), Code::kBadData);
  EXPECT_TRUE(reader.read(journal[4]).ok());
  const auto plan = reader.read(journal[5]);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(std::get<PlanRecord>(*plan).state_after, "d");
}

TEST(RecordChain, AnotherFormatIsNamed) {
  std::string bytes = written({start_of("a")}).front();
  bytes[0] = 2;
  const Status status = JournalReader().read(bytes).status();
  EXPECT_EQ(status.code(), Code::kVersionMismatch);
  EXPECT_EQ(status.message(),
            "journal record: format 2, this build reads " + std::to_string(kRecordFormat));
}

// One plan in 306 sources, of which 100 are drawn from: what is written is what moved.
TEST(RecordChain, APlanCostsWhatItMoved) {
  RandomFields random(4);
  model::StreamState state = *random_state(random, 306);
  JournalWriter writer;
  writer.write(start_of(encode_stream_state(state)));
  for (StepIndex step = 0; step < 20; ++step) {
    move_cursors(random, 100, &state);
    const std::string after = encode_stream_state(state);
    ASSERT_GT(after.size(), 5'000u);
    EXPECT_LE(writer.write(plan_of(step, after)).size(), 2'000u);
  }
}

// A bomb: a plan whose state is beyond the limit costs its refusal and no memory.
TEST(RecordChain, AStateBeyondTheLimitIsRefused) {
  const std::string bomb =
      StateDifferences().difference({"a"}, std::string(kMostStateBytes + 100, 'b'));
  const std::string bytes = encode_record(plan_of(7, bomb));
  JournalReader reader = reader_behind(written({start_of("a")}), 1);
  forget_largest_allocation();
  EXPECT_EQ(reader.read(bytes).status().code(), Code::kBadData);
  EXPECT_LE(largest_allocation(), 2 * bytes.size() + 1000);
}

}  // namespace
}  // namespace overlord::protocol
