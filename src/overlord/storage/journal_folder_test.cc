// What of a folder counts: torn tails at every length, damage by its place, segments by their
// order.
#include "overlord/storage/journal_folder.h"

#include <gtest/gtest.h>

#include "overlord/storage/journal_frames.h"
#include "overlord/storage/written_journal_test.h"

namespace overlord::storage {
namespace {

using JournalFolderTest = WrittenJournal;
// docs/architecture.md names this test.
using FileJournalTest = WrittenJournal;

constexpr SegmentName kFirst{1, 1};

// Of a record that is alone in its frame and shorter than 128 bytes.
constexpr size_t frame_bytes(size_t record) { return kFrameHeaderBytes + 1 + 1 + record; }

std::string base_of(const Records& records) {
  FrameWriter writer(FrameKind::kBase);
  for (const std::string& record : records) writer.add(record);
  return writer.take();
}

std::string records_of(const Records& records) {
  FrameWriter writer(FrameKind::kRecords);
  for (const std::string& record : records) writer.add(record);
  return writer.take();
}

TEST(SegmentName, IsReadAsItIsWritten) {
  EXPECT_EQ((SegmentName{7, 12}.text()), "term-00000007.00000012");
  for (const SegmentName name :
       {kFirst, SegmentName{99'999'999, 2}, SegmentName{4'294'967'295, 3}}) {
    EXPECT_EQ(parse_segment_name(name.text()), name);
  }
  for (const char* text : {"", "term-", "term-00000001", "term-1.1", "term-00000001.00000001x",
                           "xterm-00000001.00000001", "term-000000001.00000001",
                           "term-00000001.-0000001", "term-99999999999.00000001"}) {
    EXPECT_EQ(parse_segment_name(text), std::nullopt) << text;
  }
  EXPECT_LT((SegmentName{1, 9}), (SegmentName{2, 1}));
}

TEST(JournalFrames, NeverChange) {
  const std::string frame = records_of({"ab", ""});
  const std::string body(
      "\x02\x02"
      "ab\x00",
      5);
  EXPECT_EQ(frame.substr(0, 4), std::string("\x05\0\0\0", 4));
  EXPECT_EQ(frame.substr(4, 4), std::string("\x02OVJ", 4));
  EXPECT_EQ(frame.substr(kFrameHeaderBytes), body);
  EXPECT_EQ(base_of({})[kFrameHeaderBytes], '\x01');
}

TEST_F(FileJournalTest, ATornTailIsCutAtEveryLength) {
  write({"the base"}, {"first record", "second record"});
  const std::string whole = read_file(kFirst);
  const size_t last = whole.size() - frame_bytes(13);
  for (size_t size = last + 1; size < whole.size(); ++size) {
    write_file(kFirst, whole.substr(0, size));
    const JournalContents contents = read().contents;
    EXPECT_EQ(contents.records, (Records{"the base", "first record"})) << size;
    EXPECT_EQ(contents.valid_bytes, last);
    EXPECT_EQ(contents.cut_bytes, size - last);
  }
  const OpenedJournal opened = open();
  EXPECT_EQ(opened.contents.cut_bytes, whole.size() - 1 - last);
  ASSERT_TRUE(compact_to(*opened.journal, opened.contents.records).ok());
  ASSERT_TRUE(append_to(*opened.journal, "instead").ok());
  EXPECT_EQ(read().contents.records, (Records{"the base", "first record", "instead"}));
  EXPECT_EQ(read().contents.cut_bytes, 0u);
}

TEST_F(JournalFolderTest, ATornBaseLeavesTheSegmentBeforeAtEveryLength) {
  write({"the base"}, {"record"});
  const std::string whole = base_of({"the base", "record", "more"});
  for (const SegmentName next : {SegmentName{1, 2}, SegmentName{2, 1}}) {
    for (size_t size = 0; size < whole.size(); ++size) {
      write_file(next, whole.substr(0, size));
      const JournalFolder torn = read();
      EXPECT_EQ(torn.contents.records, (Records{"the base", "record"})) << size;
      EXPECT_EQ(torn.contents.segment, kFirst);
      EXPECT_EQ(torn.contents.cut_bytes, size);
      ASSERT_EQ(torn.segments.size(), 2u);
      EXPECT_EQ(torn.segments[1].size_bytes, size);
    }
    write_file(next, whole);
    EXPECT_EQ(read().contents.records.size(), 3u);
    EXPECT_EQ(read().contents.segment, next);
    std::filesystem::remove(path(next));
  }
}

TEST_F(JournalFolderTest, TheVeryFirstBaseMayBeTornAtEveryLength) {
  const std::string whole = base_of({"the base"});
  for (size_t size = 0; size < whole.size(); ++size) {
    write_file(kFirst, whole.substr(0, size));
    const JournalContents contents = read().contents;
    EXPECT_TRUE(contents.records.empty());
    EXPECT_FALSE(contents.segment);
    EXPECT_EQ(contents.cut_bytes, size);
  }
}

// Segments before it go only when a base is durable. So this one was, and has been damaged.
TEST_F(JournalFolderTest, ABrokenBaseWithNothingBeforeItIsDamage) {
  const std::string whole = base_of({"the base"});
  for (const SegmentName only : {SegmentName{1, 2}, SegmentName{2, 1}}) {
    write_file(only, whole.substr(0, whole.size() - 1));
    const Status damaged = read_journal(folder()).status();
    EXPECT_EQ(damaged.code(), Code::kBadData);
    EXPECT_TRUE(contains(damaged.message(), path(only))) << damaged.message();
    std::filesystem::remove(path(only));
  }
}

TEST_F(JournalFolderTest, ADamagedBaseWithRecordsBehindItIsDamageEvenIfAnOlderOneIsThere) {
  write_file(kFirst, base_of({"old"}));
  std::string bytes = base_of({"new"}) + records_of({"behind"});
  bytes[kFrameHeaderBytes] ^= 1;
  write_file({1, 2}, bytes);
  const Status damaged = read_journal(folder()).status();
  EXPECT_EQ(damaged.code(), Code::kBadData);
  EXPECT_TRUE(contains(damaged.message(), path({1, 2}))) << damaged.message();
  EXPECT_TRUE(contains(damaged.message(), "offset 0")) << damaged.message();
}

TEST_F(JournalFolderTest, ATailOfZerosIsTorn) {
  write({"base"}, {"first"});
  write_file(kFirst, read_file(kFirst) + std::string(5000, '\0'));
  EXPECT_EQ(read().contents.cut_bytes, 5000u);
  EXPECT_EQ(read().contents.records.size(), 2u);
}

TEST_F(JournalFolderTest, DamageBeforeTheTailStopsWithFileAndOffset) {
  write({"the base"}, {"first record", "second record"});
  const std::string whole = read_file(kFirst);
  const size_t second = frame_bytes(8), third = second + frame_bytes(12);
  for (size_t at = 0; at < third; ++at) {
    for (const int bit : {0, 6}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      write_file(kFirst, damaged);
      const Status status = read_journal(folder()).status();
      EXPECT_EQ(status.code(), Code::kBadData) << at;
      const std::string offset = "offset " + std::to_string(at < second ? 0 : second) + ":";
      EXPECT_TRUE(contains(status.message(), offset)) << at << status.message();
      EXPECT_TRUE(contains(status.message(), path(kFirst))) << status.message();
    }
  }
  EXPECT_EQ(FileJournal::open(folder()).status().code(), Code::kBadData);
  EXPECT_EQ(read_file(kFirst).size(), whole.size()) << "nothing was cut";
  EXPECT_EQ(segments().size(), 1u) << "nothing is claimed";
}

TEST_F(JournalFolderTest, WhatDoesNotBelongWhereItIsIsDamage) {
  for (const std::string& bytes : {records_of({"first"}), base_of({"a"}) + base_of({"b"})}) {
    write_file(kFirst, bytes);
    EXPECT_EQ(read_journal(folder()).status().code(), Code::kBadData);
  }
}

TEST_F(JournalFolderTest, AnotherVersionIsNamed) {
  // A frame of version 1, as it was written before there were segments.
  write_file(kFirst, std::string("\x03\x00\x00\x00\x01OVJ\x5d\x2f\x86\x16"
                                 "one",
                                 15));
  const Status other = read_journal(folder()).status();
  EXPECT_EQ(other.code(), Code::kVersionMismatch) << other.message();
  EXPECT_TRUE(contains(other.message(), "version 1, this build reads 2")) << other.message();
  EXPECT_EQ(FileJournal::open(folder()).status().code(), Code::kVersionMismatch);
}

TEST_F(JournalFolderTest, ThereIsNoJournalWithoutSegments) {
  EXPECT_EQ(read_journal(folder()).status().code(), Code::kNotFound);
  directory_.write("run/notes.txt", "not ours");
  EXPECT_EQ(read_journal(folder()).status().code(), Code::kNotFound);
  EXPECT_EQ(open().term, 1u);
  EXPECT_EQ(directory_.read("run/notes.txt"), "not ours");
}

TEST_F(JournalFolderTest, ReadingChangesNothing) {
  write({"base"}, {"record"});
  const std::string torn = read_file(kFirst) + "torn";
  write_file(kFirst, torn);
  write_file({2, 1}, "torn");
  EXPECT_EQ(read().contents.cut_bytes, 8u);
  EXPECT_EQ(read_file(kFirst), torn);
  EXPECT_EQ(segments(), (std::vector<SegmentName>{kFirst, {2, 1}}));
}

TEST_F(JournalFolderTest, GarbageIsNeverARecord) {
  write_file(kFirst, std::string(10'000, '\x02') + "OVJ");
  EXPECT_TRUE(read().contents.records.empty());
  EXPECT_EQ(read().contents.cut_bytes, 10'003u);
}

}  // namespace
}  // namespace overlord::storage
