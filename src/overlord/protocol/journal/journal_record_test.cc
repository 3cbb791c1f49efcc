#include "overlord/protocol/journal/journal_record.h"

#include <gtest/gtest.h>

#include "overlord/protocol/journal/random_records_test.h"

namespace overlord::protocol {
namespace {

TEST(JournalRecord, EveryKindSurvivesARoundTrip) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    RandomFields random(seed);
    for (size_t kind = 0; kind < kRecordKinds; ++kind) {
      const JournalRecord record = random_record(random, kind);
      const std::string bytes = encode_record(record);
      const auto decoded = decode_record(bytes);
      ASSERT_TRUE(decoded.ok()) << decoded.status().message();
      EXPECT_EQ(decoded->index(), kind);
      EXPECT_EQ(encode_record(*decoded), bytes);
    }
  }
}

TEST(JournalRecord, EveryTruncationIsRefused) {
  RandomFields random(1);
  for (size_t kind = 0; kind < kRecordKinds; ++kind) {
    const std::string bytes = encode_record(random_record(random, kind));
    for (size_t size = 0; size < bytes.size(); ++size) {
      const auto decoded = decode_record(std::string_view(bytes).substr(0, size));
      EXPECT_EQ(decoded.status().code(), Code::kBadData) << "kind " << kind << ", size " << size;
    }
    EXPECT_EQ(decode_record(bytes + '\0').status().code(), Code::kBadData) << "kind " << kind;
  }
}

TEST(JournalRecord, EveryFlippedBitIsRefusedOrAnotherRecord) {
  RandomFields random(2);
  for (size_t kind = 0; kind < kRecordKinds; ++kind) {
    std::string bytes = encode_record(random_record(random, kind));
    for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      flip(&bytes, bit);
      const auto decoded = decode_record(bytes);
      EXPECT_TRUE(!decoded.ok() || encode_record(*decoded) == bytes) << "kind " << kind;
      flip(&bytes, bit);
    }
  }
}

TEST(JournalRecord, AnotherFormatIsNamed) {
  std::string bytes = encode_record(PlanRecord{});
  for (const char format : {kRecordFormat - 1, kRecordFormat + 1}) {
    bytes[0] = format;
    const Status status = decode_record(bytes).status();
    EXPECT_EQ(status.code(), Code::kVersionMismatch);
    EXPECT_EQ(status.message(), "journal record: format " + std::to_string(int{format}) +
                                    ", this build reads " + std::to_string(kRecordFormat));
  }
}

// The bytes are a format: who changes them raises kRecordFormat and this.
TEST(JournalRecord, BytesAreGolden) {
  RandomFields random(11);
  Digest all;
  for (size_t kind = 0; kind < kRecordKinds; ++kind) {
    all = chain(all, digest_of(encode_record(random_record(random, kind))));
  }
  EXPECT_EQ(all.hex(), "c2b50650700486b8ad9716f37f1f1f58");
}

TEST(JournalRecord, AnswersOfCalloutsAreShort) {
  CalloutRecord record;
  const size_t empty = encode_record(record).size();
  record.values.assign(100, -3);
  EXPECT_LE(encode_record(record).size(), empty + 100);
}

}  // namespace
}  // namespace overlord::protocol
