#include "overlord/storage/local_storage.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "overlord/storage/glob.h"
#include "overlord/storage/local_uri.h"
#include "overlord/storage/temporary_directory_test.h"

namespace overlord::storage {
namespace {

using runtime::Bytes;

bool tells(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string numbered(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 7 + i / 251);
  return bytes;
}

class LocalStorageTest : public ::testing::Test {
 protected:
  Result<Bytes> read(const std::string& name, uint64_t offset, uint64_t size,
                     const model::Fingerprint& expected = {}) {
    return storage_.read_blocking({directory_.path(name), offset, size, expected});
  }
  model::Fingerprint print(const std::string& name) {
    const auto info = storage_.stat(directory_.path(name));
    EXPECT_TRUE(info.ok()) << info.status().message();
    return info->fingerprint;
  }
  // A later write within the clock's grain must still look like one.
  void touch_later(const std::string& name) {
    const auto time = std::filesystem::last_write_time(directory_.path(name));
    std::filesystem::last_write_time(directory_.path(name), time + std::chrono::seconds(2));
  }

  TemporaryDirectory directory_;
  std::shared_ptr<runtime::BufferPool> pool_ = runtime::BufferPool::make(64 << 20);
  LocalStorage storage_{pool_, 2, 4};
};

TEST_F(LocalStorageTest, ReadsRangesOfPathsAndUris) {
  const std::string bytes = numbered(300'000);
  directory_.write("a file.bin", bytes);
  const auto piece = read("a file.bin", 1000, 200'000, print("a file.bin"));
  ASSERT_TRUE(piece.ok()) << piece.status().message();
  EXPECT_EQ(std::string(piece->data, piece->size), bytes.substr(1000, 200'000));
  const std::string uri = "file://" + directory_.path("a%20file.bin");
  const auto by_uri = storage_.read_blocking({uri, 5, 10, {}});
  ASSERT_TRUE(by_uri.ok()) << by_uri.status().message();
  EXPECT_EQ(std::string(by_uri->data, by_uri->size), bytes.substr(5, 10));
  EXPECT_TRUE(read("a file.bin", 0, 0).ok());
}

TEST_F(LocalStorageTest, ShortFilesAreErrorsNotShortAnswers) {
  directory_.write("a", "abc");
  for (const auto& expected : {model::Fingerprint{}, print("a")}) {
    const auto piece = read("a", 1, 3, expected);
    EXPECT_EQ(piece.status().code(), Code::kBadData);
    EXPECT_TRUE(tells(piece.status().message(), directory_.path("a")));
  }
  EXPECT_EQ(read("a", ~uint64_t{0}, 2, print("a")).status().code(), Code::kBadData);
}

TEST_F(LocalStorageTest, MissingFilesAndDirectoriesAreNamed) {
  EXPECT_EQ(read("none", 0, 1).status().code(), Code::kNotFound);
  EXPECT_EQ(storage_.stat(directory_.path("none")).status().code(), Code::kNotFound);
  const Status status = storage_.stat(directory_.path("")).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(tells(status.message(), "is a directory"));
  ASSERT_EQ(::mkfifo(directory_.path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(storage_.stat(directory_.path("pipe")).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(read("pipe", 0, 1).status().code(), Code::kInvalidArgument);
}

TEST_F(LocalStorageTest, FingerprintSeesSizeTimeAndBothEnds) {
  const std::string bytes = numbered(500'000);
  directory_.write("a", bytes);
  const model::Fingerprint before = print("a");
  EXPECT_EQ(before.size_bytes, bytes.size());
  EXPECT_EQ(print("a"), before);
  for (const size_t at : {size_t{0}, size_t{65'000}, size_t{499'999}}) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] + 1);
    directory_.write("a", changed);
    EXPECT_NE(print("a").content, before.content) << at;
  }
  directory_.write("a", bytes);
  touch_later("a");
  EXPECT_EQ(print("a").content, before.content);
  EXPECT_NE(print("a"), before);
}

TEST_F(LocalStorageTest, ChangesUnderAnOpenHandleAreFound) {
  directory_.write("a", "old content");
  const model::Fingerprint expected = print("a");
  ASSERT_TRUE(read("a", 0, 3, expected).ok());
  EXPECT_EQ(storage_.open_files(), 1u);
  const auto says = [&](const char* part) {
    const Status status = read("a", 0, 3, expected).status();
    EXPECT_EQ(status.code(), Code::kSourceChanged) << part;
    EXPECT_TRUE(tells(status.message(), part)) << status.message();
  };
  directory_.write("b", "new content");
  touch_later("b");
  std::filesystem::rename(directory_.path("b"), directory_.path("a"));
  says("written again");
  directory_.write("a", "old content and more");
  says("grew");
  directory_.write("a", "old");
  says("shrank");
  std::filesystem::remove(directory_.path("a"));
  says("deleted");
}

// As a bad row it would be left out, and the stream would go on without it.
TEST_F(LocalStorageTest, AFileThatShrinksWhileItIsReadHasChanged) {
  constexpr uint64_t kSize = 48 << 20;
  directory_.write("a", "");
  std::filesystem::resize_file(directory_.path("a"), kSize);
  ASSERT_TRUE(read("a", 0, kSize, print("a")).ok());
  size_t found = 0;
  for (int round = 0; round < 12; ++round) {
    std::filesystem::resize_file(directory_.path("a"), kSize);
    const model::Fingerprint expected = print("a");
    std::atomic<bool> begun = false;
    auto answer = std::async(std::launch::async, [&] {
      begun = true;
      return read("a", 0, kSize, expected).status();
    });
    while (!begun) std::this_thread::yield();
    for (int i = 0; i < round * 50; ++i) std::this_thread::yield();
    std::filesystem::resize_file(directory_.path("a"), 100);
    const Status status = answer.get();
    if (status.ok()) continue;
    EXPECT_EQ(status.code(), Code::kSourceChanged) << status.message();
    ++found;
  }
  EXPECT_GT(found, 0u);
}

TEST_F(LocalStorageTest, SameSizeAndTimeButOtherContentIsFoundWhenOpened) {
  directory_.write("a", "content A");
  const model::Fingerprint expected = print("a");
  const auto time = std::filesystem::last_write_time(directory_.path("a"));
  directory_.write("b", "content B");
  std::filesystem::last_write_time(directory_.path("b"), time);
  ASSERT_TRUE(read("a", 0, 3, expected).ok());
  std::filesystem::rename(directory_.path("b"), directory_.path("a"));
  const Status status = read("a", 0, 3, expected).status();
  EXPECT_EQ(status.code(), Code::kSourceChanged);
  EXPECT_TRUE(tells(status.message(), "other content"));
}

TEST_F(LocalStorageTest, AFileRestoredAsItWasIsTheSame) {
  directory_.write("a", "content A");
  const model::Fingerprint expected = print("a");
  ASSERT_TRUE(read("a", 0, 9, expected).ok());
  directory_.write("copy", "content A");
  std::filesystem::last_write_time(directory_.path("copy"),
                                   std::filesystem::last_write_time(directory_.path("a")));
  std::filesystem::rename(directory_.path("copy"), directory_.path("a"));
  EXPECT_TRUE(read("a", 0, 9, expected).ok());
}

TEST_F(LocalStorageTest, KeepsAtMostItsOpenFiles) {
  for (int i = 0; i < 10; ++i) {
    const std::string name = "f" + std::to_string(i);
    directory_.write(name, "x" + name);
    ASSERT_TRUE(read(name, 0, 2, print(name)).ok());
  }
  EXPECT_EQ(storage_.open_files(), 4u);
}

TEST_F(LocalStorageTest, AsynchronousReadsAllAnswerOnce) {
  const std::string bytes = numbered(1 << 20);
  directory_.write("a", bytes);
  const model::Fingerprint expected = print("a");
  std::atomic<int> good{0}, answers{0};
  std::promise<void> all;
  for (int i = 0; i < 200; ++i) {
    const uint64_t offset = static_cast<uint64_t>(i) * 1000;
    storage_.read({directory_.path("a"), offset, 70'000, expected}, {},
                  [&, offset](Result<Bytes> piece) {
                    if (piece.ok() && std::string_view(piece->data, piece->size) ==
                                          std::string_view(bytes).substr(offset, 70'000)) {
                      ++good;
                    }
                    if (++answers == 200) all.set_value();
                  });
  }
  all.get_future().wait();
  EXPECT_EQ(good, 200);
  EXPECT_GT(pool_->stats().reused_count, 100u);
}

TEST_F(LocalStorageTest, ACancelledReadStillAnswersOnce) {
  directory_.write("a", "abc");
  runtime::CancelToken cancel;
  cancel.cancel();
  std::promise<Code> answer;
  storage_.read({directory_.path("a"), 0, 3, {}}, cancel,
                [&](Result<Bytes> piece) { answer.set_value(piece.status().code()); });
  EXPECT_EQ(answer.get_future().get(), Code::kCancelled);
}

TEST_F(LocalStorageTest, DestructionAnswersWhatIsWaitingAndReadsItNoMore) {
  directory_.write("a", numbered(64 << 20));
  std::atomic<int> answers{0}, cancelled{0};
  std::promise<void> all_wait;
  auto storage = std::make_unique<LocalStorage>(pool_, 1, 4);
  for (int i = 0; i < 100; ++i) {
    storage->read({directory_.path("a"), 0, 64 << 20, {}}, {}, [&](Result<Bytes> piece) {
      if (++answers == 1) all_wait.get_future().wait();  // the only thread: the others stay queued
      cancelled += piece.status().code() == Code::kCancelled ? 1 : 0;
    });
  }
  all_wait.set_value();
  storage.reset();
  EXPECT_EQ(answers, 100);
  EXPECT_GT(cancelled, 0);
}

TEST(LocalUri, RefusesWhatItMust) {
  const Status password = local_path("s3://user:hunter2@bucket/key").status();
  EXPECT_EQ(password.code(), Code::kInvalidArgument);
  EXPECT_FALSE(tells(password.message(), "hunter2")) << password.message();
  EXPECT_FALSE(tells(local_path("file://u:hunter2@h/x").status().message(), "hunter2"));
  const Status scheme = local_path("s3://bucket/key").status();
  EXPECT_TRUE(tells(scheme.message(), "file://")) << scheme.message();
  EXPECT_FALSE(local_path("pipe:cat /etc/passwd").ok() && local_path("pipe://cat").ok());
  EXPECT_FALSE(local_path("file://host/x").ok());
  EXPECT_FALSE(local_path("file:///x%zz").ok());
  EXPECT_FALSE(local_path("file:///x%00y").ok());
  EXPECT_FALSE(local_path(std::string("a\0b", 3)).ok());
  EXPECT_FALSE(local_path("").ok());
  EXPECT_EQ(*local_path("file://localhost/a%20b"), "/a b");
  EXPECT_EQ(*local_path("relative/path"), "relative/path");
  EXPECT_EQ(local_uri_like("file:///x", "/a b%"), "file:///a%20b%25");
}

TEST_F(LocalStorageTest, GlobsAreSortedAndNeverEmpty) {
  for (const char* name : {"b.jsonl", "a.jsonl", "c.txt", "sub/d.jsonl", "sub/deep/e.jsonl"}) {
    directory_.write(name, name);
  }
  const auto names = [&](const std::string& pattern) -> std::string {
    std::string joined;
    const auto uris = storage_.list(directory_.path(pattern));
    if (!uris.ok()) return uris.status().code() == Code::kNotFound ? "not found" : "refused";
    for (const std::string& uri : *uris) joined += uri.substr(directory_.path("").size()) + " ";
    return joined;
  };
  EXPECT_EQ(names("*.jsonl"), "a.jsonl b.jsonl ");
  EXPECT_EQ(names("?.jsonl"), "a.jsonl b.jsonl ");
  EXPECT_EQ(names("**/*.jsonl"), "a.jsonl b.jsonl sub/d.jsonl sub/deep/e.jsonl ");
  EXPECT_EQ(names("sub/**/e.jsonl"), "sub/deep/e.jsonl ");
  EXPECT_EQ(names("s*/*.jsonl"), "sub/d.jsonl ");
  EXPECT_EQ(names("c.txt"), "c.txt ");
  EXPECT_EQ(names("*.parquet"), "not found");
  EXPECT_EQ(names("nowhere/*.jsonl"), "not found");
  EXPECT_EQ(names("sub"), "refused");
  EXPECT_EQ(*storage_.list("file://" + directory_.path("a.*")),
            std::vector<std::string>{"file://" + directory_.path("a.jsonl")});
}

TEST_F(LocalStorageTest, BracesCountOutFilesThatHaveToBeThere) {
  for (const char* name : {"s-08.tar", "s-09.tar", "s-10.tar", "s-12.tar", "x/a.bin", "y/b.bin",
                           "y/c.bin", "odd{1}.bin"}) {
    directory_.write(name, name);
  }
  const auto names = [&](const std::string& pattern) -> std::string {
    std::string joined;
    const auto uris = storage_.list(directory_.path(pattern));
    if (!uris.ok()) return uris.status().message();
    for (const std::string& uri : *uris) joined += uri.substr(directory_.path("").size()) + " ";
    return joined;
  };
  EXPECT_EQ(names("s-{08..10}.tar"), "s-08.tar s-09.tar s-10.tar ");
  EXPECT_EQ(names("{y,x}/*.bin"), "x/a.bin y/b.bin y/c.bin ");
  EXPECT_EQ(names("{x/a,y/{b,c}}.bin"), "x/a.bin y/b.bin y/c.bin ");
  EXPECT_EQ(names("{*,s-08}.tar"), "s-08.tar s-09.tar s-10.tar s-12.tar ");
  EXPECT_EQ(names("odd\\{1\\}.bin"), "odd{1}.bin ");
  EXPECT_TRUE(tells(names("odd{1}.bin"), "neither a list")) << names("odd{1}.bin");
  const Status status = storage_.list(directory_.path("s-{08..13}.tar")).status();
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_TRUE(tells(status.message(), "stands for 6 names")) << status.message();
  for (const char* missing : {"s-11.tar", "s-13.tar"}) {
    EXPECT_TRUE(tells(status.message(), missing)) << status.message();
  }
  EXPECT_FALSE(tells(status.message(), "s-12.tar")) << status.message();
  EXPECT_TRUE(tells(names("{x,z}/*.bin"), "z/*.bin")) << names("{x,z}/*.bin");
  EXPECT_EQ(*storage_.list("file://" + directory_.path("odd%7B1%7D.bin")),
            std::vector<std::string>{"file://" + directory_.path("odd%7B1%7D.bin")});
}

TEST_F(LocalStorageTest, GlobsWithMarkerFilesNeedAnExtension) {
  for (const char* name :
       {"part-0", "part-1", "_SUCCESS", ".part-0.crc", "part-0.md5", ".x.jsonl", "y.jsonl"}) {
    directory_.write(name, name);
  }
  const Status status = storage_.list(directory_.path("*")).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  for (const char* odd : {"_SUCCESS", ".part-0.crc", "part-0.md5"}) {
    EXPECT_TRUE(tells(status.message(), odd)) << status.message();
  }
  EXPECT_EQ(storage_.list(directory_.path("*.jsonl"))->size(), 1u);
  EXPECT_EQ(storage_.list(directory_.path("part-?"))->size(), 2u);
}

TEST_F(LocalStorageTest, GlobDoesNotFollowLinkedCycles) {
  directory_.write("sub/a.jsonl", "x");
  std::filesystem::create_directory_symlink(directory_.path(""), directory_.path("sub/loop"));
  EXPECT_EQ(storage_.list(directory_.path("**/*.jsonl"))->size(), 1u);
}

TEST(Braces, StandForNames) {
  const auto names = [](const std::string& pattern) {
    std::string joined;
    const auto expanded = expand_braces(pattern);
    if (!expanded.ok()) return expanded.status().message();
    for (const std::string& name : *expanded) joined += name + " ";
    return joined;
  };
  EXPECT_EQ(names("plain-*.tar"), "plain-*.tar ");
  EXPECT_EQ(names("a{b,c}d{e,f}"), "abde abdf acde acdf ");
  EXPECT_EQ(names("{a,b{1..2},}x"), "ax b1x b2x x ");
  EXPECT_EQ(names("{a,{b,c}}"), "a b c ");
  EXPECT_EQ(names("{8..11}"), "8 9 10 11 ");
  EXPECT_EQ(names("{008..11}"), "008 009 010 011 ");
  EXPECT_EQ(names("{0..10..5}"), "0 5 10 ");
  EXPECT_EQ(names("{00..10..4}"), "00 04 08 ");
  EXPECT_EQ(names("x{a..d}"), "xa xb xc xd ");
  EXPECT_EQ(names("{../a,../b}"), "../a ../b ");
  EXPECT_EQ(names("\\{a,b\\}{c\\,d,e}"), "{a,b}c,d {a,b}e ");
  EXPECT_EQ(names("dir\\file{1,2}"), "dir\\file1 dir\\file2 ");
  EXPECT_EQ(names("a\\,b"), "a\\,b ");
}

TEST(Braces, RefuseWhatIsUnclear) {
  for (const auto& [pattern, word] :
       std::vector<std::pair<std::string, const char*>>{{"a{b", "without a closing"},
                                                        {"a{b,c", "without a closing"},
                                                        {"a}b", "without an opening"},
                                                        {"{split}.tar", "neither a list"},
                                                        {"{}", "neither a list"},
                                                        {"{5..1}", "backwards"},
                                                        {"{1..a}", "no range"},
                                                        {"{1..}", "no range"},
                                                        {"{1..9..0}", "step"},
                                                        {"{aa..bb}", "no range"},
                                                        {"{-1..3}", "no range"},
                                                        {"{0..99999999999}", "more than 1000000"},
                                                        {"{0..1999}{0..1999}", "more than 1000000"},
                                                        {"{0..99999999999999999999}", "no range"},
                                                        {std::string(100'000, '{'), "too deep"}}) {
    const Status status = expand_braces(pattern).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << pattern.substr(0, 50);
    EXPECT_TRUE(tells(status.message(), word)) << status.message().substr(0, 500);
  }
}

TEST_F(LocalStorageTest, AFolderIsAllThatLiesBelowIt) {
  for (const char* name : {"f/b", "f/deep/c", "f/.hidden", "f/empty", "g/other"}) {
    directory_.write(name, name[2] == 'e' ? "" : name);
  }
  std::filesystem::create_directory_symlink(directory_.path("f"), directory_.path("f/loop"));
  const auto files = storage_.list_folder(directory_.path("f/"), 4);
  ASSERT_TRUE(files.ok()) << files.status().message();
  std::vector<std::pair<std::string, uint64_t>> found;
  for (const auto& file : *files) found.emplace_back(file.uri, file.size_bytes);
  EXPECT_EQ(found,
            (std::vector<std::pair<std::string, uint64_t>>{{directory_.path("f/.hidden"), 9},
                                                           {directory_.path("f/b"), 3},
                                                           {directory_.path("f/deep/c"), 8},
                                                           {directory_.path("f/empty"), 0}}));
  const Status many = storage_.list_folder(directory_.path("f/"), 3).status();
  EXPECT_TRUE(tells(many.message(), "more than 3 files")) << many.message();
  EXPECT_EQ(storage_.list_folder(directory_.path("none/"), 3).status().code(), Code::kNotFound);
  const auto uris = storage_.list_folder("file://" + directory_.path("g/"), 4);
  EXPECT_EQ(uris->front().uri, "file://" + directory_.path("g/other"));
}

TEST(Glob, MatchesLikeAShell) {
  EXPECT_TRUE(glob_matches("*", ""));
  EXPECT_TRUE(glob_matches("a*b*c", "aXbYbZc"));
  EXPECT_FALSE(glob_matches("a*b*c", "aXcYb"));
  EXPECT_TRUE(glob_matches("part-??", "part-07"));
  EXPECT_FALSE(glob_matches("part-??", "part-7"));
  EXPECT_TRUE(glob_matches("*a*a*a*", std::string(50, 'a')));
}

}  // namespace
}  // namespace overlord::storage
