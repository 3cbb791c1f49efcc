// What is written comes back; who may write where; what a failure ends.
#include "overlord/storage/file_journal.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <csignal>

#include "overlord/storage/crc32c.h"
#include "overlord/storage/written_journal_test.h"

namespace overlord::storage {
namespace {

using FileJournalTest = WrittenJournal;

TEST(Crc32c, KnownValues) {
  EXPECT_EQ(crc32c("123456789", 9), 0xe3069283u);
  EXPECT_EQ(crc32c("", 0), 0u);
  EXPECT_EQ(crc32c("6789", 4, crc32c("12345", 5)), 0xe3069283u);
  const std::string zeros(32, '\0');
  EXPECT_EQ(crc32c(zeros.data(), zeros.size()), 0x8a9136aau);
}

TEST_F(FileJournalTest, RecordsComeBackInOrderAndGoOn) {
  write({"start", ""}, {"one", "", std::string(100'000, 'x')});
  const Records all = {"start", "", "one", "", std::string(100'000, 'x')};
  {
    const OpenedJournal opened = open();
    EXPECT_EQ(opened.contents.records, all);
    EXPECT_EQ(opened.contents.segment, (SegmentName{1, 1}));
    EXPECT_EQ(opened.contents.cut_bytes, 0u);
    EXPECT_EQ(opened.term, 2u);
    ASSERT_TRUE(compact_to(*opened.journal, {"all of it"}).ok());
    ASSERT_TRUE(append_to(*opened.journal, "four").ok());
  }
  const JournalFolder after = read();
  EXPECT_EQ(after.contents.records, (Records{"all of it", "four"}));
  ASSERT_EQ(after.segments.size(), 1u);
  EXPECT_EQ(after.segments[0].name, (SegmentName{2, 1}));
  EXPECT_EQ(after.contents.valid_bytes, after.segments[0].size_bytes);
}

TEST_F(FileJournalTest, CompactingBeginsASegmentAndRemovesThoseBefore) {
  const OpenedJournal opened = open();
  ASSERT_TRUE(compact_to(*opened.journal, {}).ok());
  for (uint32_t number = 1; number <= 3; ++number) {
    EXPECT_EQ(segments(), (std::vector<SegmentName>{{1, number}}));
    ASSERT_TRUE(append_to(*opened.journal, "after").ok());
    ASSERT_TRUE(compact_to(*opened.journal, {"base " + std::to_string(number)}).ok());
    EXPECT_EQ(read().contents.records, (Records{"base " + std::to_string(number)}));
  }
}

TEST_F(FileJournalTest, AnOpeningWritesNothingOfItsOwn) {
  write({"start"}, {"one"});
  open();
  const OpenedJournal opened = open();
  EXPECT_EQ(opened.contents.records, (Records{"start", "one"}));
  EXPECT_EQ(opened.term, 3u);
  EXPECT_EQ(segments(), (std::vector<SegmentName>{{1, 1}, {2, 1}, {3, 1}}));
}

TEST_F(FileJournalTest, AppendingBeforeTheFirstBaseIsAnError) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(append_to(*open().journal, "early"), "before its first compact");
}

TEST_F(FileJournalTest, FilesAndFolderAreClosedToOthers) {
  write({"one"});
  struct stat info;
  ASSERT_EQ(::stat(path({1, 1}).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_EQ(::stat(folder().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  for (const mode_t mode : {0720, 0702, 0777}) {
    ::chmod(folder().c_str(), mode);
    const Status refused = FileJournal::open(folder()).status();
    EXPECT_EQ(refused.code(), Code::kInvalidArgument) << mode;
    EXPECT_TRUE(contains(refused.message(), "mode 0700"));
  }
  EXPECT_EQ(segments().size(), 1u) << "nothing was claimed";
}

TEST_F(FileJournalTest, AFileIsNoFolderAndFoldersAboveAreMade) {
  directory_.write("run", "a file");
  EXPECT_EQ(FileJournal::open(folder()).status().code(), Code::kInvalidArgument);
  const std::string deep = directory_.path("a/b//c/");
  ASSERT_TRUE(FileJournal::open(deep).ok());
  EXPECT_TRUE(std::filesystem::exists(directory_.path("a/b/c/term-00000001.00000001")));
}

TEST_F(FileJournalTest, ALinkIsNotFollowed) {
  directory_.write("victim", "data");
  write({"start"});
  std::filesystem::create_symlink(directory_.path("victim"), path({2, 1}));
  EXPECT_FALSE(FileJournal::open(folder()).ok());
  std::filesystem::remove(path({2, 1}));
  const OpenedJournal opened = open();
  ASSERT_TRUE(compact_to(*opened.journal, {"start"}).ok());
  std::filesystem::create_symlink(directory_.path("victim"), path({2, 2}));
  EXPECT_FALSE(compact_to(*opened.journal, {"x"}).ok());
  EXPECT_EQ(directory_.read("victim"), "data");
}

TEST_F(FileJournalTest, RecordsAppendedDuringASyncShareTheNext) {
  constexpr int kRecords = 2000;
  OpenedJournal opened = open();
  ASSERT_TRUE(compact_to(*opened.journal, {}).ok());
  int called = 0;
  std::promise<void> all;
  for (int i = 0; i < kRecords; ++i) {
    opened.journal->append(std::to_string(i), [&, i](const Status& status) {
      EXPECT_TRUE(status.ok());
      EXPECT_EQ(called, i) << "in order";
      if (++called == kRecords) all.set_value();
    });
  }
  all.get_future().wait();
  EXPECT_LT(opened.journal->counts().syncs, uint64_t{kRecords});
  EXPECT_EQ(opened.journal->counts().lag_records, 0u);
  EXPECT_EQ(opened.journal->counts().written_bytes, std::filesystem::file_size(path({1, 1})));
  const Records records = read().contents.records;
  ASSERT_EQ(records.size(), size_t{kRecords});
  for (int i = 0; i < kRecords; ++i) EXPECT_EQ(records[i], std::to_string(i));
}

TEST_F(FileJournalTest, WhatWasAppendedIsWrittenBeforeClosing) {
  int durable = 0;
  const auto count = [&](const Status& status) { durable += status.ok() ? 1 : 0; };
  {
    const OpenedJournal opened = open();
    opened.journal->compact({"base"}, count);
    for (int i = 0; i < 50; ++i) opened.journal->append("record", count);
    opened.journal->compact({"base", "second"}, count);
    for (int i = 0; i < 50; ++i) opened.journal->append("record", count);
  }
  EXPECT_EQ(durable, 102);
  EXPECT_EQ(read().contents.records.size(), 52u);
}

// A limit of the file's size is none of the disk: the write fails, for good.
[[noreturn]] void write_over_the_limit(const std::string& folder) {
  std::signal(SIGXFSZ, SIG_IGN);
  const OpenedJournal opened = std::move(*FileJournal::open(folder));
  const bool first = compact_to(*opened.journal, {"fits"}).ok();
  struct rlimit limit = {1000, 1000};
  ::setrlimit(RLIMIT_FSIZE, &limit);
  const Status failed = append_to(*opened.journal, std::string(2000, 'x'));
  const Status later = append_to(*opened.journal, "small");
  const bool right = first && failed.code() == Code::kResource && !later.ok() &&
                     later.message() == failed.message();
  std::_Exit(right ? 0 : 1);
}

TEST_F(FileJournalTest, AFailedWriteIsFinal) {
  EXPECT_EXIT(write_over_the_limit(folder()), ::testing::ExitedWithCode(0), "");
  EXPECT_EQ(read().contents.records, Records{"fits"});
}

TEST_F(FileJournalTest, ARemovedFolderIsNoticed) {
  const OpenedJournal opened = open();
  ASSERT_TRUE(compact_to(*opened.journal, {"base"}).ok());
  std::filesystem::remove_all(folder());
  const Status removed = append_to(*opened.journal, "lost");
  EXPECT_EQ(removed.code(), Code::kResource);
  EXPECT_TRUE(contains(removed.message(), "was removed or moved")) << removed.message();
  EXPECT_TRUE(contains(removed.message(), path({1, 1}))) << removed.message();
  EXPECT_FALSE(compact_to(*opened.journal, {"base"}).ok()) << "for good";
}

TEST_F(FileJournalTest, AMovedFolderIsNoticedEvenIfACopyIsInItsPlace) {
  const OpenedJournal opened = open();
  ASSERT_TRUE(compact_to(*opened.journal, {"base"}).ok());
  std::filesystem::rename(folder(), directory_.path("away"));
  std::filesystem::copy(directory_.path("away"), folder());
  EXPECT_EQ(append_to(*opened.journal, "lost").code(), Code::kResource);
}

TEST_F(FileJournalTest, ARemovedSegmentIsNoticed) {
  const OpenedJournal opened = open();
  ASSERT_TRUE(compact_to(*opened.journal, {"base"}).ok());
  std::filesystem::remove(path({1, 1}));
  EXPECT_EQ(append_to(*opened.journal, "lost").code(), Code::kResource);
}

TEST_F(FileJournalTest, ACompactingIntoARemovedFolderSaysSo) {
  const OpenedJournal opened = open();
  ASSERT_TRUE(compact_to(*opened.journal, {"base"}).ok());
  std::filesystem::remove_all(folder());
  const Status removed = compact_to(*opened.journal, {"lost"});
  EXPECT_EQ(removed.code(), Code::kResource);
  EXPECT_TRUE(contains(removed.message(), "was removed or moved")) << removed.message();
}

}  // namespace
}  // namespace overlord::storage
