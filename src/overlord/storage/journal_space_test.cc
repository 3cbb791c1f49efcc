// A full disk is waited for and nothing is lost; a broken one ends the journal.
#include <gtest/gtest.h>

#include <atomic>

#include "overlord/storage/file_journal.h"
#include "overlord/storage/written_journal_test.h"

namespace overlord::storage {
namespace {

// A disk with errors, to be switched on and off while it is written to. 0: none.
struct FaultyDisk final : FileOperations {
  int create(const std::string& path, int* fd) override {
    return creating != 0 ? creating.load() : FileOperations::create(path, fd);
  }
  int reserve(int fd, uint64_t offset, uint64_t size_bytes) override {
    return reserving != 0 ? reserving.load() : FileOperations::reserve(fd, offset, size_bytes);
  }
  // Half of it fits, the rest does not.
  int write(int fd, std::string_view bytes, uint64_t offset, size_t* wrote) override {
    ++writes;
    if (writing == 0) return FileOperations::write(fd, bytes, offset, wrote);
    if (bytes.size() < 10) return writing;
    return FileOperations::write(fd, bytes.substr(0, bytes.size() / 2), offset, wrote);
  }
  int sync(int fd) override { return syncing != 0 ? syncing.load() : FileOperations::sync(fd); }
  int sync_folder(const std::string& folder) override {
    return syncing_folder != 0 ? syncing_folder.load() : FileOperations::sync_folder(folder);
  }
  int remove(const std::string& path) override {
    return removing != 0 ? removing.load() : FileOperations::remove(path);
  }

  std::atomic<int> creating{0}, reserving{0}, writing{0}, syncing{0}, syncing_folder{0};
  std::atomic<int> removing{0}, writes{0};
};

class JournalSpace : public WrittenJournal {
 protected:
  // Appends and compacts over a disk that one of its calls finds full, for a time.
  void waits_and_goes_on(std::atomic<int>* fault, int error) {
    OpenedJournal opened = open(&disk_);
    FileJournal& journal = *opened.journal;
    ASSERT_TRUE(compact_to(journal, {"base"}).ok());
    ASSERT_TRUE(append_to(journal, "before").ok());
    const std::string good = read_file({1, 1});
    *fault = error;
    std::atomic<int> answers{0};
    const auto in_order = [&](int place) {
      return [&answers, place](const Status& status) {
        EXPECT_TRUE(status.ok()) << status.message();
        EXPECT_EQ(answers++, place);
      };
    };
    journal.compact({"second base"}, in_order(0));
    for (int i = 1; i < 10; ++i) journal.append(std::to_string(i), in_order(i));
    ASSERT_TRUE(comes_true([&] { return journal.counts().waits_for_space; }));
    EXPECT_EQ(answers, 0);
    EXPECT_EQ(journal.counts().lag_records, 9u);
    EXPECT_EQ(read().contents.records, (Records{"base", "before"}));
    EXPECT_EQ(read().contents.cut_bytes, 0u) << "half a record was left";
    EXPECT_EQ(read_file({1, 1}), good);
    *fault = 0;
    ASSERT_TRUE(comes_true([&] { return answers == 10; }));
    EXPECT_FALSE(journal.counts().waits_for_space);
    EXPECT_EQ(journal.counts().lag_records, 0u);
    EXPECT_EQ(read().contents.records,
              (Records{"second base", "1", "2", "3", "4", "5", "6", "7", "8", "9"}));
    EXPECT_EQ(segments(), (std::vector<SegmentName>{{1, 2}}));
  }

  FaultyDisk disk_;
};

TEST_F(JournalSpace, WaitsWhereSpaceIsReserved) { waits_and_goes_on(&disk_.reserving, ENOSPC); }
TEST_F(JournalSpace, WaitsWhereTheQuotaIsUsedUp) { waits_and_goes_on(&disk_.reserving, EDQUOT); }
TEST_F(JournalSpace, WaitsWhereASegmentIsMade) { waits_and_goes_on(&disk_.creating, ENOSPC); }
TEST_F(JournalSpace, WaitsWhereOnlyTheSyncTells) { waits_and_goes_on(&disk_.syncing, ENOSPC); }
TEST_F(JournalSpace, WaitsWhereSpaceCannotBeReserved) {
  disk_.reserving = EOPNOTSUPP;
  waits_and_goes_on(&disk_.writing, ENOSPC);
}

TEST_F(JournalSpace, ARecordWaitsAsABaseDoes) {
  disk_.reserving = EOPNOTSUPP;
  const OpenedJournal opened = open(&disk_);
  ASSERT_TRUE(compact_to(*opened.journal, {"base"}).ok());
  const std::string good = read_file({1, 1});
  disk_.writing = ENOSPC;
  Answer answer;
  opened.journal->append(std::string(500, 'r'), answer.taker());
  ASSERT_TRUE(comes_true([&] { return opened.journal->counts().waits_for_space; }));
  EXPECT_EQ(read_file({1, 1}), good);
  disk_.writing = 0;
  EXPECT_TRUE(answer.get().ok());
  EXPECT_EQ(read().contents.records, (Records{"base", std::string(500, 'r')}));
}

TEST_F(JournalSpace, ClosingDoesNotWait) {
  Answer first, second;
  {
    const OpenedJournal opened = open(&disk_);
    ASSERT_TRUE(compact_to(*opened.journal, {"base"}).ok());
    disk_.reserving = ENOSPC;
    opened.journal->append("first", first.taker());
    ASSERT_TRUE(comes_true([&] { return opened.journal->counts().waits_for_space; }));
    opened.journal->append("second", second.taker());
  }
  EXPECT_EQ(first.get().code(), Code::kCancelled);
  EXPECT_EQ(second.get().code(), Code::kCancelled);
  EXPECT_EQ(read().contents.records, Records{"base"});
}

TEST_F(JournalSpace, WhoLosesTheFolderDoesNotWait) {
  const OpenedJournal opened = open(&disk_);
  ASSERT_TRUE(compact_to(*opened.journal, {"base"}).ok());
  disk_.reserving = ENOSPC;
  Answer answer;
  opened.journal->append("record", answer.taker());
  ASSERT_TRUE(comes_true([&] { return opened.journal->counts().waits_for_space; }));
  const OpenedJournal successor = open();
  EXPECT_EQ(answer.get().code(), Code::kUnavailable);
}

TEST_F(JournalSpace, AFailedSyncIsFinal) {
  const OpenedJournal opened = open(&disk_);
  ASSERT_TRUE(compact_to(*opened.journal, {"base"}).ok());
  disk_.syncing = EIO;
  const Status failed = append_to(*opened.journal, "record");
  EXPECT_EQ(failed.code(), Code::kResource);
  EXPECT_TRUE(contains(failed.message(), "fdatasync failed")) << failed.message();
  EXPECT_TRUE(contains(failed.message(), path({1, 1}))) << failed.message();
  disk_.syncing = 0;
  const int writes = disk_.writes;
  EXPECT_EQ(append_to(*opened.journal, "later").message(), failed.message());
  EXPECT_EQ(compact_to(*opened.journal, {"later"}).message(), failed.message());
  EXPECT_EQ(disk_.writes, writes) << "nothing is written behind what may be lost";
  EXPECT_EQ(opened.journal->counts().lag_records, 2u);
}

TEST_F(JournalSpace, AFailedSyncOfTheFolderIsFinalAndRemovesNothing) {
  const OpenedJournal opened = open(&disk_);
  ASSERT_TRUE(compact_to(*opened.journal, {"base"}).ok());
  disk_.syncing_folder = EIO;
  EXPECT_EQ(compact_to(*opened.journal, {"second"}).code(), Code::kResource);
  EXPECT_EQ(segments(), (std::vector<SegmentName>{{1, 1}, {1, 2}}));
  EXPECT_EQ(FileJournal::open(folder(), &disk_).status().code(), Code::kResource);
  EXPECT_EQ(segments().size(), 2u) << "a claim that is not durable is taken back";
}

TEST_F(JournalSpace, WhatCannotBeRemovedIsTriedAgain) {
  const OpenedJournal opened = open(&disk_);
  ASSERT_TRUE(compact_to(*opened.journal, {"base"}).ok());
  disk_.removing = EBUSY;
  ASSERT_TRUE(compact_to(*opened.journal, {"second"}).ok());
  ASSERT_TRUE(compact_to(*opened.journal, {"third"}).ok());
  EXPECT_EQ(read().contents.records, Records{"third"});
  EXPECT_EQ(segments().size(), 3u);
  disk_.removing = 0;
  ASSERT_TRUE(compact_to(*opened.journal, {"fourth"}).ok());
  EXPECT_EQ(segments(), (std::vector<SegmentName>{{1, 4}}));
}

TEST_F(JournalSpace, AFullDiskRefusesAnOpening) {
  disk_.creating = ENOSPC;
  const Status full = FileJournal::open(folder(), &disk_).status();
  EXPECT_EQ(full.code(), Code::kResource);
  EXPECT_TRUE(contains(full.message(), "free some disk space")) << full.message();
}

}  // namespace
}  // namespace overlord::storage
