// Terms: who opens a journal fences those before, and has read all that they ever call durable.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <mutex>
#include <set>

#include "overlord/storage/file_journal.h"
#include "overlord/storage/journal_frames.h"
#include "overlord/storage/written_journal_test.h"

namespace overlord::storage {
namespace {

using JournalTerms = WrittenJournal;

bool holds(const Records& records, const std::string& record) {
  return std::find(records.begin(), records.end(), record) != records.end();
}

TEST_F(JournalTerms, WhoWasThereBeforeIsToldWhoCame) {
  const OpenedJournal first = open();
  ASSERT_TRUE(compact_to(*first.journal, {"base"}).ok());
  const OpenedJournal second = open();
  EXPECT_EQ(second.contents.records, Records{"base"});
  for (int i = 0; i < 2; ++i) {
    const Status fenced = append_to(*first.journal, "late");
    EXPECT_EQ(fenced.code(), Code::kUnavailable);
    EXPECT_TRUE(contains(fenced.message(), "was taken over by term 2")) << fenced.message();
  }
  ASSERT_TRUE(compact_to(*second.journal, {"base", "second"}).ok());
  EXPECT_EQ(compact_to(*first.journal, {"mine"}).code(), Code::kUnavailable);
  EXPECT_EQ(read().contents.records, (Records{"base", "second"}));
}

TEST_F(JournalTerms, AFencedWriterRemovesNothing) {
  const OpenedJournal first = open();
  ASSERT_TRUE(compact_to(*first.journal, {"base"}).ok());
  const OpenedJournal second = open();
  EXPECT_EQ(compact_to(*first.journal, {"mine"}).code(), Code::kUnavailable);
  EXPECT_TRUE(std::filesystem::exists(path({1, 1})));
  EXPECT_TRUE(std::filesystem::exists(path({2, 1})));
}

TEST_F(JournalTerms, AFencedWriterWhoseSegmentsAreGoneIsToldByWhom) {
  const OpenedJournal first = open();
  ASSERT_TRUE(compact_to(*first.journal, {"base"}).ok());
  const OpenedJournal second = open();
  ASSERT_TRUE(compact_to(*second.journal, {"second"}).ok());
  ASSERT_TRUE(compact_to(*second.journal, {"second again"}).ok());
  ASSERT_EQ(segments(), (std::vector<SegmentName>{{2, 2}}));
  EXPECT_EQ(append_to(*first.journal, "late").code(), Code::kUnavailable);
}

TEST_F(JournalTerms, AnOpenerThatWasOvertakenWritesNothingThatCounts) {
  write({"base"});
  const OpenedJournal second = open();
  const OpenedJournal third = open();
  EXPECT_EQ(compact_to(*second.journal, {"second"}).code(), Code::kUnavailable);
  ASSERT_TRUE(compact_to(*third.journal, {"third"}).ok());
  EXPECT_EQ(read().contents.records, Records{"third"});
}

// At its first create() somebody else makes a file.
class Planting final : public FileOperations {
 public:
  Planting(std::string path, std::string bytes)
      : path_(std::move(path)), bytes_(std::move(bytes)) {}

  int create(const std::string& path, int* fd) override {
    const int made = FileOperations::create(path, fd);
    if (!path_.empty()) std::ofstream(std::exchange(path_, ""), std::ios::binary) << bytes_;
    return made;
  }

 private:
  std::string path_;
  const std::string bytes_;
};

// The listing of an opener may miss a term whose segments are renewed while it lists. Then the
// first segment of that term is free, and the term is not.
TEST_F(JournalTerms, ATermThatSomebodyHasIsNotClaimedAgain) {
  FrameWriter base(FrameKind::kBase);
  Planting planting(path({1, 2}), base.take());
  EXPECT_EQ(open(&planting).term, 2u);
  EXPECT_EQ(segments(), (std::vector<SegmentName>{kFirstSegment, {1, 2}, {2, 1}}));
}

// Whoever sees a later term beside its own claims again. The first of all segments must not go for
// it: nothing is durable yet, and a folder without it looks as if something had been lost.
TEST_F(JournalTerms, TheFirstClaimOfAllMayGiveWay) {
  Planting planting(path({2, 1}), "");
  EXPECT_EQ(open(&planting).term, 3u);
  EXPECT_EQ(open().term, 4u);
}

TEST_F(JournalTerms, EightProcessesHaveEightTerms) {
  constexpr int kProcesses = 8;
  std::set<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const auto opened = FileJournal::open(folder());
      std::_Exit(opened.ok() ? static_cast<int>(opened->term) : 100);
    }
    children.insert(child);
  }
  std::set<int> terms;
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    terms.insert(WEXITSTATUS(status));
  }
  // Distinct, not in a row: who sees a later one beside its own claims again.
  EXPECT_EQ(terms.size(), size_t{kProcesses});
  EXPECT_FALSE(terms.contains(100)) << "one could not open it";
}

// Eight at once open, go on from what they read, and open again. What was called durable was read
// by everybody after.
TEST_F(JournalTerms, NothingDurableIsLostBetweenEight) {
  constexpr int kThreads = 8, kRounds = 12;
  std::mutex mutex;
  std::set<uint32_t> terms;
  Records durable;
  const auto take_turns = [&](int thread) {
    for (int round = 0; round < kRounds; ++round) {
      OpenedJournal opened = open();
      ASSERT_NE(opened.journal, nullptr);
      const std::string own = std::to_string(thread) + "/" + std::to_string(round);
      Records records = std::move(opened.contents.records);
      records.push_back(own);
      const Status status = compact_to(*opened.journal, std::move(records));
      EXPECT_TRUE(status.ok() || status.code() == Code::kUnavailable) << status.message();
      const std::lock_guard lock(mutex);
      EXPECT_TRUE(terms.insert(opened.term).second) << "a term was claimed twice";
      if (status.ok()) durable.push_back(own);
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(take_turns, i);
  for (std::thread& thread : threads) thread.join();
  const Records last = open().contents.records;
  EXPECT_FALSE(durable.empty());
  for (const std::string& record : durable) EXPECT_TRUE(holds(last, record)) << record;
}

// At one of the calls somebody else gets a turn.
class Interrupting final : public FileOperations {
 public:
  Interrupting(int at, std::function<void()> turn) : at_(at), turn_(std::move(turn)) {}

  int create(const std::string& path, int* fd) override {
    return between([&] { return FileOperations::create(path, fd); });
  }
  int reserve(int fd, uint64_t offset, uint64_t size_bytes) override {
    return between([&] { return FileOperations::reserve(fd, offset, size_bytes); });
  }
  int write(int fd, std::string_view bytes, uint64_t offset, size_t* wrote) override {
    return between([&] { return FileOperations::write(fd, bytes, offset, wrote); });
  }
  int sync(int fd) override {
    return between([&] { return FileOperations::sync(fd); });
  }
  int sync_folder(const std::string& folder) override {
    return between([&] { return FileOperations::sync_folder(folder); });
  }
  int remove(const std::string& path) override {
    return between([&] { return FileOperations::remove(path); });
  }

  void begin() { counting_ = true; }
  bool interrupted() const { return at_ < 0; }

 private:
  template <typename Call>
  int between(Call&& call) {
    interrupt();
    const int answer = call();
    interrupt();
    return answer;
  }
  void interrupt() {
    if (counting_ && at_-- == 0) turn_();
  }

  std::atomic<int> at_;
  const std::function<void()> turn_;
  std::atomic<bool> counting_{false};
};

// Between its listing and its claim two others have come, and the first of them is gone.
TEST_F(JournalTerms, ATermThatCameAndWentIsNotClaimedAgain) {
  std::vector<OpenedJournal> others;
  Interrupting operations(0, [&] {
    for (int i = 0; i < 2; ++i) {
      others.push_back(open());
      EXPECT_TRUE(compact_to(*others.back().journal, {"base"}).ok());
    }
  });
  operations.begin();
  const OpenedJournal opened = open(&operations);
  ASSERT_EQ(others.size(), 2u);
  EXPECT_GT(opened.term, others.back().term);
  EXPECT_EQ(opened.contents.records, Records{"base"});
}

TEST_F(JournalTerms, ASuccessorAtAnyCallHasReadAllThatIsEverDurable) {
  bool interrupted = true;
  int fenced = 0;
  for (int at = 0; interrupted; ++at) {
    std::filesystem::remove_all(folder());
    OpenedJournal successor;
    Interrupting operations(at, [&] { successor = open(); });
    Records durable;
    {
      const OpenedJournal opened = open(&operations);
      operations.begin();
      Records told;
      for (int step = 0; step < 6; ++step) {
        const std::string record = std::to_string(step);
        told.push_back(record);
        const Status status =
            step % 3 == 0 ? compact_to(*opened.journal, told) : append_to(*opened.journal, record);
        if (status.ok()) durable.push_back(record);
        fenced += status.code() == Code::kUnavailable ? 1 : 0;
        EXPECT_TRUE(status.ok() || operations.interrupted()) << status.message();
      }
    }
    interrupted = operations.interrupted();
    if (!interrupted) continue;
    for (const std::string& record : durable) {
      EXPECT_TRUE(holds(successor.contents.records, record)) << "record " << record << " at " << at;
    }
    ASSERT_TRUE(compact_to(*successor.journal, {"next"}).ok());
    EXPECT_EQ(read().contents.records, Records{"next"});
  }
  EXPECT_GT(fenced, 20);
}

TEST_F(JournalTerms, WhatIsWrittenAtAnyCallOfAnOpenerIsReadOrRefused) {
  std::set<bool> outcomes;
  for (const bool compacts : {false, true}) {
    bool interrupted = true;
    for (int at = 0; interrupted; ++at) {
      std::filesystem::remove_all(folder());
      const OpenedJournal writer = open();
      ASSERT_TRUE(compact_to(*writer.journal, {"base"}).ok());
      Status status;
      Interrupting operations(at, [&] {
        status = compacts ? compact_to(*writer.journal, {"base", "record"})
                          : append_to(*writer.journal, "record");
      });
      operations.begin();
      const OpenedJournal opened = open(&operations);
      interrupted = operations.interrupted();
      if (!interrupted) continue;
      outcomes.insert(status.ok());
      EXPECT_TRUE(status.ok() || status.code() == Code::kUnavailable) << status.message();
      EXPECT_TRUE(!status.ok() || holds(opened.contents.records, "record")) << "at " << at;
    }
  }
  EXPECT_EQ(outcomes.size(), 2u) << "both before and after the claim";
}

// Writes one number after another until it is refused. Each tells those before it, so now and then
// one is a base.
class Unceasing {
 public:
  explicit Unceasing(FileJournal* journal) : journal_(journal) { next(); }

  int durable() const { return durable_; }
  Status refused() { return refused_.get_future().get(); }

 private:
  void next() {
    const std::string number = std::to_string(durable_);
    const auto answered = [this](const Status& status) {
      if (!status.ok()) return refused_.set_value(status);
      ++durable_;
      next();
    };
    if (durable_ % 5 == 0) return journal_->compact({number}, answered);
    journal_->append(number, answered);
  }

  FileJournal* const journal_;
  std::atomic<int> durable_{0};
  std::promise<Status> refused_;
};

// Processes race for the same pages, synced or not. Without the disk's pauses they meet more often.
struct QuickDisk final : FileOperations {
  int sync(int /*fd*/) override { return 0; }
  int sync_folder(const std::string& /*folder*/) override { return 0; }
};

TEST_F(JournalTerms, ARaceOfWriterAndSuccessorLosesNothing) {
  QuickDisk disk;
  OpenedJournal opened = open(&disk);
  for (int round = 0; round < 1000; ++round) {
    Unceasing writer(opened.journal.get());
    ASSERT_TRUE(comes_true([&] { return writer.durable() >= round % 7; }));
    OpenedJournal successor = open(&disk);
    EXPECT_EQ(writer.refused().code(), Code::kUnavailable);
    const Records& records = successor.contents.records;
    const int read = records.empty() ? 0 : std::stoi(records.back()) + 1;
    ASSERT_GE(read, writer.durable()) << "in round " << round;
    opened = std::move(successor);
  }
}

}  // namespace
}  // namespace overlord::storage
