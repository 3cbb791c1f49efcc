#include "overlord/protocol/journal_record.h"

#include <gtest/gtest.h>

namespace overlord::protocol {
namespace {

TEST(JournalRecord, EveryKindSurvivesARoundTrip) {
  model::Versions versions;
  versions.job = 77;
  versions.tree = 4;
  const JournalRecord records[] = {
      JournalStart{versions, {1, 2}, {3, 4}, "state"},
      PlanRecord{versions, 12, {5, 6}, {7, 8}, "after"},
      LateBadRecord{versions, 9, {1, 2, 3}, "source web, shard a, row 7: broken"},
      FeedbackRecord{versions, 20, {12, {{0, -5, 7}, {3, 1 << 30, 9}}, {4, 5}}},
      TreeRecord{versions, 30, {{"dp", 2}, {"tp", 4}}},
      CalloutRecord{versions, 3, model::CalloutKind::kCost, {"mine", "2", 1000}, {0, -1, 1 << 30}},
  };
  for (const JournalRecord& record : records) {
    const std::string bytes = encode_record(record);
    const auto decoded = decode_record(bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.status().message();
    EXPECT_EQ(decoded->index(), record.index());
    EXPECT_EQ(encode_record(*decoded), bytes);
    for (size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(decode_record(std::string_view(bytes).substr(0, size)).ok());
    }
  }
}

TEST(JournalRecord, ANewerFormatIsRefused) {
  std::string bytes = encode_record(PlanRecord{});
  bytes[0] = 2;
  EXPECT_EQ(decode_record(bytes).status().code(), Code::kVersionMismatch);
}

}  // namespace
}  // namespace overlord::protocol
