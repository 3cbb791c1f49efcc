#include "overlord/storage/file_journal.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <future>

#include "overlord/storage/crc32c.h"
#include "overlord/storage/temporary_directory_test.h"

namespace overlord::storage {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class FileJournalTest : public ::testing::Test {
 protected:
  std::string path() const { return directory_.path("state/journal"); }
  std::unique_ptr<FileJournal> open(JournalContents* contents = nullptr) {
    JournalContents ignored;
    auto journal = FileJournal::open(path(), contents == nullptr ? &ignored : contents);
    EXPECT_TRUE(journal.ok()) << journal.status().message();
    return journal.ok() ? std::move(*journal) : nullptr;
  }
  static Status append(FileJournal* journal, const std::string& record) {
    std::promise<Status> durable;
    journal->append(record, [&](Status status) { durable.set_value(status); });
    return durable.get_future().get();
  }
  void write_records(const std::vector<std::string>& records) {
    auto journal = open();
    for (const std::string& record : records) ASSERT_TRUE(append(journal.get(), record).ok());
  }

  TemporaryDirectory directory_;
};

TEST(Crc32c, KnownValues) {
  EXPECT_EQ(crc32c("123456789", 9), 0xe3069283u);
  EXPECT_EQ(crc32c("", 0), 0u);
  EXPECT_EQ(crc32c("6789", 4, crc32c("12345", 5)), 0xe3069283u);
  const std::string zeros(32, '\0');
  EXPECT_EQ(crc32c(zeros.data(), zeros.size()), 0x8a9136aau);
}

TEST_F(FileJournalTest, RecordsComeBackInOrderAndGoOn) {
  write_records({"one", "", std::string(100'000, 'x')});
  JournalContents contents;
  {
    auto journal = open(&contents);
    EXPECT_EQ(contents.records, (std::vector<std::string>{"one", "", std::string(100'000, 'x')}));
    EXPECT_EQ(contents.cut_bytes, 0u);
    ASSERT_TRUE(append(journal.get(), "four").ok());
  }
  const auto read = read_journal(path());
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->records.size(), 4u);
  EXPECT_EQ(read->valid_bytes, std::filesystem::file_size(path()));
}

TEST_F(FileJournalTest, FileAndDirectoryAreClosedToOthers) {
  write_records({"one"});
  struct stat info;
  ASSERT_EQ(::stat(path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_EQ(::stat(directory_.path("state").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  ::chmod(directory_.path("state").c_str(), 0777);
  JournalContents contents;
  EXPECT_EQ(FileJournal::open(path(), &contents).status().code(), Code::kInvalidArgument);
}

TEST_F(FileJournalTest, ASecondWriterIsRefused) {
  auto first = open();
  JournalContents contents;
  const Status second = FileJournal::open(path(), &contents).status();
  EXPECT_EQ(second.code(), Code::kUnavailable);
  EXPECT_TRUE(contains(second.message(), "another writer"));
  first.reset();
  EXPECT_TRUE(FileJournal::open(path(), &contents).ok());
}

TEST_F(FileJournalTest, ALinkIsNotFollowed) {
  directory_.write("victim", "data");
  std::filesystem::create_directory(directory_.path("state"));
  ::chmod(directory_.path("state").c_str(), 0700);
  std::filesystem::create_symlink(directory_.path("victim"), path());
  JournalContents contents;
  EXPECT_FALSE(FileJournal::open(path(), &contents).ok());
  EXPECT_EQ(directory_.read("victim"), "data");
}

TEST_F(FileJournalTest, ATornTailIsCutAtEveryLength) {
  write_records({"first record", "second record", "third record"});
  const std::string whole = directory_.read("state/journal");
  const size_t last = whole.size() - 12 - 12;
  for (size_t size = last + 1; size < whole.size(); ++size) {
    directory_.write("state/journal", whole.substr(0, size));
    const auto read = read_journal(path());
    ASSERT_TRUE(read.ok()) << size << read.status().message();
    EXPECT_EQ(read->records.size(), 2u);
    EXPECT_EQ(read->cut_bytes, size - last);
  }
  JournalContents contents;
  {
    auto journal = open(&contents);
    EXPECT_EQ(contents.cut_bytes, whole.size() - 1 - last);
    ASSERT_TRUE(append(journal.get(), "instead").ok());
  }
  const auto read = read_journal(path());
  EXPECT_EQ(read->records, (std::vector<std::string>{"first record", "second record", "instead"}));
  EXPECT_EQ(read->cut_bytes, 0u);
}

TEST_F(FileJournalTest, ATailOfZerosIsTorn) {
  write_records({"first"});
  directory_.write("state/journal", directory_.read("state/journal") + std::string(5000, '\0'));
  const auto read = read_journal(path());
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->cut_bytes, 5000u);
}

TEST_F(FileJournalTest, DamageBeforeTheTailStopsWithTheOffset) {
  write_records({"first record", "second record", "third record"});
  const std::string whole = directory_.read("state/journal");
  const size_t second = 12 + 12, third = second + 12 + 13;
  for (size_t at = 0; at < third; ++at) {
    for (const int bit : {0, 6}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      directory_.write("state/journal", damaged);
      const auto read = read_journal(path());
      ASSERT_FALSE(read.ok()) << at;
      EXPECT_EQ(read.status().code(), Code::kBadData) << at;
      const std::string offset = "offset " + std::to_string(at < second ? 0 : second);
      EXPECT_TRUE(contains(read.status().message(), offset)) << read.status().message();
      JournalContents contents;
      EXPECT_FALSE(FileJournal::open(path(), &contents).ok());
    }
  }
  EXPECT_EQ(directory_.read("state/journal").size(), whole.size());  // nothing was cut
}

TEST_F(FileJournalTest, RecordsAppendedDuringASyncShareTheNext) {
  auto journal = open();
  std::atomic<int> durable{0};
  std::promise<void> all;
  for (int i = 0; i < 2000; ++i) {
    journal->append(std::to_string(i), [&](Status status) {
      EXPECT_TRUE(status.ok());
      if (++durable == 2000) all.set_value();
    });
  }
  all.get_future().wait();
  EXPECT_LT(journal->syncs(), 2000u);
  journal.reset();
  const auto read = read_journal(path());
  ASSERT_EQ(read->records.size(), 2000u);
  for (int i = 0; i < 2000; ++i) EXPECT_EQ(read->records[i], std::to_string(i));
}

TEST_F(FileJournalTest, WhatWasAppendedIsWrittenBeforeClosing) {
  int durable = 0;
  {
    auto journal = open();
    for (int i = 0; i < 50; ++i) journal->append("record", [&](Status) { ++durable; });
  }
  EXPECT_EQ(durable, 50);
  EXPECT_EQ(read_journal(path())->records.size(), 50u);
}

// A file size limit stands in for a full disk: the write fails, for good.
[[noreturn]] void fill_the_disk(const std::string& path) {
  std::signal(SIGXFSZ, SIG_IGN);
  JournalContents contents;
  auto journal = std::move(*FileJournal::open(path, &contents));
  const auto append = [&](const std::string& record) {
    std::promise<Status> durable;
    journal->append(record, [&](Status status) { durable.set_value(status); });
    return durable.get_future().get();
  };
  const bool first = append("fits").ok();
  struct rlimit limit = {1000, 1000};
  ::setrlimit(RLIMIT_FSIZE, &limit);
  const Status failed = append(std::string(2000, 'x'));
  const Status later = append("small");
  const bool right = first && failed.code() == Code::kResource && !later.ok() &&
                     later.message() == failed.message();
  std::_Exit(right ? 0 : 1);
}

TEST_F(FileJournalTest, AFailedWriteIsFinal) {
  EXPECT_EXIT(fill_the_disk(path()), ::testing::ExitedWithCode(0), "");
  const auto read = read_journal(path());
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->records, std::vector<std::string>{"fits"});
}

TEST_F(FileJournalTest, MissingJournalIsNotFound) {
  EXPECT_EQ(read_journal(path()).status().code(), Code::kNotFound);
}

TEST_F(FileJournalTest, GarbageIsNeverARecord) {
  directory_.write("state/journal", std::string(10'000, '\x01') + "OVJ");
  const auto read = read_journal(path());
  ASSERT_TRUE(read.ok());
  EXPECT_TRUE(read->records.empty());
  EXPECT_EQ(read->cut_bytes, 10'003u);
}

}  // namespace
}  // namespace overlord::storage
