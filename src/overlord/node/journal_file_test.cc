// Which file a planner writes to, and what of it is read again.
#include "overlord/node/journal_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "overlord/runtime/in_memory/memory_journal.h"
#include "overlord/storage/temporary_directory_test.h"

namespace overlord::node {
namespace {

class JournalFiles : public ::testing::Test {
 protected:
  JournalFiles() {
    auto job = std::make_shared<host::OpenJob>();
    job->config = digest_of("config");
    start_.job = job;
    start_.ranks = {3, 4};
    start_.attempt = 2;
  }
  std::string path() const {
    return folder_.path(start_.job->config.hex() + "-rank-" + std::to_string(start_.ranks.front()) +
                        "-attempt-" + std::to_string(start_.attempt) + ".journal");
  }
  void write(const std::vector<std::string>& records) {
    auto journal = open_journal(folder_.path(), start_);
    ASSERT_TRUE(journal.ok()) << journal.status().message();
    for (const std::string& record : records) {
      (*journal)->append(record, [](const Status& status) { EXPECT_TRUE(status.ok()); });
    }
  }
  static std::string late_bad(StepIndex step) {
    return protocol::encode_record(protocol::LateBadRecord{{}, step, {0, 0, 1}, "torn"});
  }

  storage::TemporaryDirectory folder_;
  host::HostStart start_;
};

TEST_F(JournalFiles, EveryPlannerAndAttemptHasItsOwn) {
  write({late_bad(0)});
  EXPECT_TRUE(std::filesystem::exists(path()));
  start_.attempt = 3;
  write({late_bad(1)});
  start_.ranks = {5};
  write({late_bad(2)});
  const auto records = read_records(path());
  ASSERT_TRUE(records.ok()) << records.status().message();
  ASSERT_EQ(records->size(), 1u) << "not those of the others";
  EXPECT_EQ(std::get<protocol::LateBadRecord>((*records)[0]).step, 2u);
}

TEST_F(JournalFiles, WhoComesAgainGoesOnBehindWhatIsThereAndATornTailIsLeftOut) {
  write({late_bad(0)});
  write({late_bad(1)});
  const auto whole = read_records(path());
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->size(), 2u);
  std::filesystem::resize_file(path(), std::filesystem::file_size(path()) - 1);
  const auto torn = read_records(path());
  ASSERT_TRUE(torn.ok()) << torn.status().message();
  EXPECT_EQ(torn->size(), 1u);
}

TEST_F(JournalFiles, RefusesWhatIsNoRecord) {
  write({"no record of ours"});
  EXPECT_FALSE(read_records(path()).ok());
  EXPECT_EQ(read_records(folder_.path("none")).status().code(), Code::kNotFound);
}

TEST_F(JournalFiles, WithoutAFolderTheNewestRecordsAreKeptInMemory) {
  const auto journal = open_journal("", start_);
  ASSERT_TRUE(journal.ok());
  const auto* memory = dynamic_cast<const runtime::MemoryJournal*>(journal->get());
  ASSERT_NE(memory, nullptr);
  for (int record = 0; record < 100; ++record) {
    (*journal)->append(std::to_string(record), [](const Status&) {});
  }
  EXPECT_EQ(memory->records().size(), 64u);
  EXPECT_EQ(memory->records().front(), "36");
}

}  // namespace
}  // namespace overlord::node
