// Test support of this room: a journal in a folder of its own, written and waited for.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "overlord/storage/file_journal.h"
#include "overlord/storage/temporary_directory_test.h"

namespace overlord::storage {

using Records = std::vector<std::string>;

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Waits for what must come; false: it did not, for a long time.
inline bool comes_true(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

// What the journal says of one call, when it says it.
class Answer {
 public:
  std::function<void(Status)> taker() {
    return [promise = promise_](Status status) { promise->set_value(std::move(status)); };
  }
  Status get() { return future_.get(); }

 private:
  std::shared_ptr<std::promise<Status>> promise_ = std::make_shared<std::promise<Status>>();
  std::future<Status> future_ = promise_->get_future();
};

inline Status append_to(FileJournal& journal, std::string record) {
  Answer answer;
  journal.append(std::move(record), answer.taker());
  return answer.get();
}

inline Status compact_to(FileJournal& journal, Records records) {
  Answer answer;
  journal.compact(std::move(records), answer.taker());
  return answer.get();
}

class WrittenJournal : public ::testing::Test {
 protected:
  std::string folder() const { return directory_.path("run"); }
  std::string path(SegmentName name) const { return folder() + "/" + name.text(); }
  std::string read_file(SegmentName name) const { return directory_.read("run/" + name.text()); }
  void write_file(SegmentName name, const std::string& bytes) const {
    directory_.write("run/" + name.text(), bytes);
  }
  OpenedJournal open(FileOperations* operations = nullptr) const {
    auto opened = FileJournal::open(folder(), operations);
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    return opened.ok() ? std::move(*opened) : OpenedJournal{};
  }
  // Each append is a sync, and so a frame, of its own.
  void write(const Records& base, const Records& appended = {}) const {
    const OpenedJournal opened = open();
    ASSERT_TRUE(compact_to(*opened.journal, base).ok());
    for (const std::string& record : appended) {
      ASSERT_TRUE(append_to(*opened.journal, record).ok());
    }
  }
  JournalFolder read() const {
    const auto read = read_journal(folder());
    EXPECT_TRUE(read.ok()) << read.status().message();
    return read.ok() ? *read : JournalFolder{};
  }
  std::vector<SegmentName> segments() const { return list_segments(folder()).value(); }

  TemporaryDirectory directory_;
};

}  // namespace overlord::storage
