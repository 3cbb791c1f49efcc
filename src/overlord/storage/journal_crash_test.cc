// A journal that ends at any of its calls, by a dead process or a power failure, reads as it was
// before or after what was being written, and holds all that was called durable.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>

#include "overlord/storage/file_journal.h"
#include "overlord/storage/written_journal_test.h"

namespace overlord::storage {
namespace {

// Keeps a second image of the folder: only what was synced. Before, in and after every call it lets
// the test look.
class CrashPoints final : public FileOperations {
 public:
  using Files = std::map<std::string, std::string>;  // bytes by path

  explicit CrashPoints(std::function<void(const Files& image)> look) : look_(std::move(look)) {}

  int create(const std::string& path, int* fd) override {
    look();
    const int error = FileOperations::create(path, fd);
    if (error == 0) paths_[*fd] = path;
    if (error == 0) live_[path];
    look();
    return error;
  }
  int write(int fd, std::string_view bytes, uint64_t offset, size_t* wrote) override {
    const std::string_view half = bytes.substr(0, (bytes.size() + 1) / 2);  // a short write
    const int error = FileOperations::write(fd, half, offset, wrote);
    std::string& live = live_[paths_[fd]];
    live.resize(offset);
    live += half.substr(0, *wrote);
    look();
    return error;
  }
  int sync(int fd) override {
    look();
    const int error = FileOperations::sync(fd);
    if (error == 0) synced_[paths_[fd]] = live_[paths_[fd]];
    look();
    return error;
  }
  int sync_folder(const std::string& folder) override {
    look();
    const int error = FileOperations::sync_folder(folder);
    if (error == 0) names_.clear();
    for (const auto& [path, bytes] : live_) names_.insert(path);
    look();
    return error;
  }
  int remove(const std::string& path) override {
    look();
    const int error = FileOperations::remove(path);
    live_.erase(path);
    look();
    return error;
  }

 private:
  // What may be on the disk: the folder as it is; only what was synced, with removed files or
  // without; and files that have their size, but zeros for what was not synced.
  void look() {
    look_(live_);
    Files kept, gone, zeros;
    for (const std::string& path : names_) {
      kept[path] = synced_[path];
      if (!live_.contains(path)) continue;
      gone[path] = synced_[path];
      zeros[path] = synced_[path];
      zeros[path].resize(std::max(live_[path].size(), synced_[path].size()), '\0');
    }
    for (const Files& image : {kept, gone, zeros}) look_(image);
  }

  const std::function<void(const Files&)> look_;
  std::map<int, std::string> paths_;
  Files live_;
  Files synced_;
  std::set<std::string> names_;  // those that are on the disk
};

class JournalCrash : public WrittenJournal {
 protected:
  // Whether the image reads as one of the states from the last durable one on.
  void check(const CrashPoints::Files& image) {
    ++points_;
    const std::string copy = directory_.path("copy");
    std::filesystem::remove_all(copy);
    std::filesystem::create_directory(copy);
    for (const auto& [path, bytes] : image) {
      directory_.write("copy/" + std::filesystem::path(path).filename().string(), bytes);
    }
    const auto read = read_journal(copy);
    if (read.status().code() == Code::kNotFound && durable_ == 0) return;
    ASSERT_TRUE(read.ok()) << read.status().message() << " after " << durable_;
    const auto from = states_.begin() + durable_;
    EXPECT_NE(std::find(from, states_.end(), read->contents.records), states_.end())
        << read->contents.records.size() << " records after " << durable_;
  }
  void expect(Records state) { states_.push_back(std::move(state)); }

  std::vector<Records> states_ = {{}};  // after each call, from none on
  std::atomic<int> durable_{0};         // so many calls
  int points_ = 0;
};

TEST_F(JournalCrash, EveryPointReadsAsBeforeOrAfter) {
  CrashPoints operations([this](const CrashPoints::Files& image) { check(image); });
  const OpenedJournal opened = open(&operations);
  Records told;
  for (int step = 0; step < 8; ++step) {
    if (step % 3 == 0) {
      told = {"base " + std::to_string(step), std::string(3000, 'b')};
      expect(told);
      ASSERT_TRUE(compact_to(*opened.journal, told).ok());
    } else {
      told.push_back("record " + std::to_string(step));
      expect(told);
      ASSERT_TRUE(append_to(*opened.journal, told.back()).ok());
    }
    ++durable_;
  }
  EXPECT_EQ(segments(), (std::vector<SegmentName>{{1, 3}}));
  EXPECT_GT(points_, 200);
}

// The base of a term after another, whose segment must not go too soon.
TEST_F(JournalCrash, TheFirstBaseOfATermToo) {
  CrashPoints operations([this](const CrashPoints::Files& image) { check(image); });
  for (int term = 1; term <= 3; ++term) {
    const OpenedJournal opened = open(&operations);
    EXPECT_EQ(opened.contents.records, states_.back());
    expect({"base of " + std::to_string(term)});
    ASSERT_TRUE(compact_to(*opened.journal, states_.back()).ok());
    ++durable_;
  }
  EXPECT_EQ(segments(), (std::vector<SegmentName>{{3, 1}}));
}

}  // namespace
}  // namespace overlord::storage
