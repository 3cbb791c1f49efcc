// Which folder a planner writes to, and what the next one reads of it.
#include "overlord/node/run_journal.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <future>

#include "overlord/protocol/journal/record_chain.h"
#include "overlord/protocol/state_codec.h"
#include "overlord/runtime/in_memory/memory_journal.h"
#include "overlord/storage/temporary_directory_test.h"

namespace overlord::node {
namespace {

class RunJournals : public ::testing::Test {
 protected:
  RunJournals() {
    job_->config = digest_of("config");
    job_->manifest.digest = digest_of("manifest");
  }
  host::HostStart start(const std::string& run, uint32_t attempt = 1) const {
    host::HostStart out;
    out.job = job_;
    out.run = run;
    out.attempt = attempt;
    return out;
  }
  std::string folder() const {
    return journal_folder_of(folder_.path("journals"), job_->config, "node");
  }
  static uint32_t term(const host::HostStart& start) {
    return start.generations.at(protocol::planner_address());
  }
  // A planner that writes its start and dies; its term.
  uint32_t write(host::HostStart start) {
    auto journal = open_run_journal(folder(), false, &start);
    EXPECT_TRUE(journal.ok()) << journal.status().message();
    protocol::JournalStart record;
    record.versions.attempt = start.attempt;
    record.config = job_->config;
    record.manifest = job_->manifest.digest;
    record.run = start.run;
    record.state = protocol::encode_stream_state({});
    std::promise<Status> durable;
    (*journal)->compact({protocol::JournalWriter().write(record)},
                        [&](const Status& status) { durable.set_value(status); });
    const Status status = durable.get_future().get();
    EXPECT_TRUE(status.ok()) << status.message();
    return term(start);
  }
  size_t kept_aside() const {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder())) {
      if (entry.path().filename().string().starts_with("before-")) ++count;
    }
    return count;
  }

  storage::TemporaryDirectory folder_;
  std::shared_ptr<host::OpenJob> job_ = std::make_shared<host::OpenJob>();
};

TEST_F(RunJournals, TheSameRunGoesOnInTheNextTerm) {
  EXPECT_EQ(write(start("run")), 1u);
  host::HostStart next = start("run");
  ASSERT_TRUE(open_run_journal(folder(), true, &next).ok());
  EXPECT_EQ(term(next), 2u);
  ASSERT_NE(next.folded, nullptr);
  EXPECT_EQ(next.folded->start().run, "run");
  EXPECT_EQ(kept_aside(), 0u);
}

TEST_F(RunJournals, AnotherRunOrAttemptBeginsFromTheTrainersState) {
  write(start("run"));
  host::HostStart other = start("another");
  ASSERT_TRUE(open_run_journal(folder(), false, &other).ok());
  EXPECT_EQ(other.folded, nullptr);
  EXPECT_EQ(kept_aside(), 1u) << "what was there is for people";
  host::HostStart later = start("run", 2);
  ASSERT_TRUE(open_run_journal(folder(), false, &later).ok());
  EXPECT_EQ(later.folded, nullptr);
  EXPECT_EQ(kept_aside(), 2u);
}

TEST_F(RunJournals, ARunThatDiesBeforeItWroteAnythingTakesNothingAway) {
  write(start("run"));
  host::HostStart other = start("another");
  ASSERT_TRUE(open_run_journal(folder(), false, &other).ok()) << "and it dies";
  host::HostStart next = start("run");
  ASSERT_TRUE(open_run_journal(folder(), true, &next).ok());
  EXPECT_NE(next.folded, nullptr);
}

TEST_F(RunJournals, TheNewestRunsAreKeptAside) {
  for (int run = 0; run < 6; ++run) write(start("run " + std::to_string(run)));
  EXPECT_EQ(kept_aside(), 3u);
  EXPECT_TRUE(std::filesystem::exists(folder() + "/before-5"));
}

TEST_F(RunJournals, AJobThatChangedWhileItRanIsRefusedByName) {
  write(start("run"));
  job_->manifest.digest = digest_of("other files");
  host::HostStart next = start("run");
  const Status refused = open_run_journal(folder(), true, &next).status();
  EXPECT_EQ(refused.code(), Code::kStateMismatch);
  EXPECT_NE(refused.message().find("another manifest"), std::string::npos) << refused.message();
}

TEST_F(RunJournals, ARunThatHasBegunNeedsItsJournal) {
  host::HostStart lost = start("run");
  const Status gone = open_run_journal(folder(), true, &lost).status();
  EXPECT_EQ(gone.code(), Code::kUnavailable);
  EXPECT_NE(gone.message().find(folder()), std::string::npos) << gone.message();
  // A planner that died before anything was durable has told nobody anything.
  host::HostStart next = start("run");
  ASSERT_TRUE(open_run_journal(folder(), true, &next).ok());
  EXPECT_EQ(next.folded, nullptr);
}

TEST_F(RunJournals, WithoutAFolderItIsInMemory) {
  host::HostStart in_memory = start("");
  const auto journal = open_run_journal("", false, &in_memory);
  ASSERT_TRUE(journal.ok());
  EXPECT_NE(dynamic_cast<runtime::MemoryJournal*>(journal->get()), nullptr);
  EXPECT_FALSE(in_memory.generations.contains(protocol::planner_address()));
}

}  // namespace
}  // namespace overlord::node
