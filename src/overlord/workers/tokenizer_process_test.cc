#include "overlord/workers/tokenizer_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "overlord/runtime/steady_clock.h"

namespace overlord::workers {
namespace {

using runtime::CancelToken;
using runtime::EncodedRows;
using runtime::TextRows;

constexpr int64_t kMillisecond = 1'000'000;
constexpr int64_t kSecond = 1000 * kMillisecond;

// A tokenizer whose tokens are bytes, and which misbehaves when the text or argv[1] asks it to.
constexpr char kScript[] = R"py(
import os, struct, sys, time

def read(size):
    data = b""
    while len(data) < size:
        more = os.read(0, size - len(data))
        if not more:
            os._exit(0)
        data += more
    return data

def write(data):
    while data:
        data = data[os.write(1, data):]

def text(mark, message):
    write(mark + struct.pack("<I", len(message)) + message)

def once(path):
    if os.path.exists(path):
        return False
    open(path, "w").close()
    return True

mode = sys.argv[1] if len(sys.argv) > 1 else ""
vocabulary = 256
digest = "d1"
if mode == "slow":
    time.sleep(0.4)
if mode == "silent":
    time.sleep(1000)
if mode == "noisy":
    os.write(2, b"x" * 1000000 + b"\nlast words\n")
if mode == "refuse":
    text(b"OVTE", b"no such tokenizer")
    sys.exit(1)
if mode == "die":
    sys.exit("died at birth")
if mode == "changing":
    digest = "d%d" % os.getpid()
if mode == "environment":
    digest = os.environ["OL_TEST_NAME"] + ":" + ",".join(sorted(os.listdir("/proc/self/fd")))
if mode == "babble":
    text(b"OVTH", b"{{{")
if mode == "endless":
    write(b"OVTH" + struct.pack("<I", 2**32 - 1))
text(b"OVTH", ("1\n%s\n%d" % (digest, vocabulary)).encode())

while True:
    magic, rows, size = struct.unpack("<4sIQ", read(16))
    assert magic == b"OVTK"
    ends = struct.unpack("<%dQ" % rows, read(8 * rows))
    if mode == "deaf":
        while True:
            write(b"OVTE" * 4096)
    body = read(size)
    word, _, path = body.decode("latin-1").partition(":")
    if word == "CRASH" or (word == "CRASH-ONCE" and once(path)):
        sys.stderr.write("line one\nthe reason\n")
        sys.stderr.flush()
        os._exit(3)
    if word == "LEAVE":
        os.close(0)
        os.close(1)
        time.sleep(0.3)
        os._exit(4)
    if word == "KILLED" or (word == "KILLED-THRICE" and any(once(path + n) for n in "123")):
        os.kill(os.getpid(), 9)
    if word == "ABORT":
        os.kill(os.getpid(), 6)
    if word == "HANG" or (word == "HANG-ONCE" and once(path)):
        time.sleep(1000)
    if word == "GARBAGE" or (word == "GARBAGE-ONCE" and once(path)):
        write(b"hello, world!!!!")
    if word == "ERROR":
        text(b"OVTE", b"row 0 is not text")
        continue
    if word == "ROWS":
        rows += 1
    if word == "MANY":
        write(b"OVTR" + struct.pack("<IQ", rows, 2**60))
        continue
    if word == "ENDS":
        ends = (size + 1,) * rows
    if word.startswith("MASKED"):
        write(b"OVTP" + struct.pack("<I", 1) + b"OVTP" + struct.pack("<I", 2))
        last = rows if word == "MASKED-STRAY" else rows - 1
        bad = struct.pack("<II", last, 3) + b"odd"
        write(b"OVTM" + struct.pack("<IQ%dQ%di" % (rows, size), rows, size, *ends, *body)
              + bytes([2 if word == "MASKED-TWO" else b & 1 for b in body])
              + struct.pack("<I", len(bad)) + bad)
        continue
    tokens = [-5 if word == "NEGATIVE" else 256 if word == "BEYOND" else b for b in body]
    write(b"OVTR" + struct.pack("<IQ%dQ%di" % (rows, len(tokens)), rows, len(tokens), *ends, *tokens)
          if word != "ROWS" else b"OVTR" + struct.pack("<IQ", rows, 0) + bytes(8 * rows))
)py";

size_t open_descriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

bool has_children() {
  siginfo_t info = {};
  return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

TextRows rows_of(const std::vector<std::string>& texts) {
  TextRows rows;
  for (const std::string& text : texts) {
    rows.bytes += text;
    rows.ends.push_back(rows.bytes.size());
  }
  return rows;
}

// Collects answers; every wait ends after two minutes.
class Answers {
 public:
  runtime::EncodeDone next() {
    return [this](Result<EncodedRows> result) {
      const std::lock_guard lock(mutex_);
      results_.push_back(std::move(result));
      threads_.insert(std::this_thread::get_id());
      more_.notify_all();
    };
  }
  bool wait(size_t count) {
    std::unique_lock lock(mutex_);
    return more_.wait_for(lock, std::chrono::seconds(120),
                          [&] { return results_.size() >= count; });
  }
  std::vector<Result<EncodedRows>>& results() { return results_; }
  const std::set<std::thread::id>& threads() const { return threads_; }

 private:
  std::mutex mutex_;
  std::condition_variable more_;
  std::vector<Result<EncodedRows>> results_;
  std::set<std::thread::id> threads_;
};

class TokenizerPoolTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "ol-tok-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    std::ofstream(folder_ / "worker.py") << kScript;
    descriptors_ = open_descriptors();
  }

  void TearDown() override {
    EXPECT_EQ(open_descriptors(), descriptors_);
    EXPECT_FALSE(has_children());
    std::filesystem::remove_all(folder_);
  }

  TokenizerPoolOptions options(const std::string& mode = "") {
    TokenizerPoolOptions options;
    options.argv = {"/usr/bin/env", "python3", (folder_ / "worker.py").string(), mode};
    options.start_deadline_ns = 100 * kSecond;
    options.progress_deadline_ns = 100 * kSecond;
    return options;
  }

  std::unique_ptr<TokenizerPool> make(TokenizerPoolOptions options) {
    auto pool = TokenizerPool::make(std::move(options));
    EXPECT_TRUE(pool.ok()) << pool.status().message();
    return pool.ok() ? std::move(pool).value() : nullptr;
  }

  Result<EncodedRows> encode(TokenizerPool& pool, std::vector<std::string> texts) {
    auto answers = std::make_shared<Answers>();
    pool.encode(rows_of(texts), CancelToken(),
                [answers, done = answers->next()](Result<EncodedRows> r) { done(std::move(r)); });
    if (!answers->wait(1)) return internal_error("no answer");
    return answers->results().front();
  }

  std::string once(const std::string& word) { return word + ":" + (folder_ / word).string(); }

  std::filesystem::path folder_;
  size_t descriptors_ = 0;
};

TEST_F(TokenizerPoolTest, EncodesRowsInTheirOrder) {
  auto pool = make(options());
  EXPECT_EQ(pool->stats().starts, 0u);  // lazy
  EXPECT_FALSE(has_children());
  auto encoded = encode(*pool, {"ab", "", "c"});
  ASSERT_TRUE(encoded.ok()) << encoded.status().message();
  EXPECT_EQ(encoded->tokens, (std::vector<int32_t>{'a', 'b', 'c'}));
  EXPECT_EQ(encoded->ends, (std::vector<uint64_t>{2, 2, 3}));
  EXPECT_EQ(pool->stats().starts, 1u);
  EXPECT_EQ(pool->stats().encoded, 1u);
  EXPECT_EQ(pool->stats().tokens, 3u);
}

TEST_F(TokenizerPoolTest, MasksAndBadRowsComeWithTheTokens) {
  auto pool = make(options());
  auto encoded = encode(*pool, {"MASKED:", "ab", ""});
  ASSERT_TRUE(encoded.ok()) << encoded.status().message();
  EXPECT_EQ(encoded->tokens.size(), 9u);
  ASSERT_EQ(encoded->mask.size(), 9u);
  EXPECT_EQ(encoded->mask[7], 1);  // 'a' is odd
  EXPECT_EQ(encoded->mask[8], 0);
  ASSERT_EQ(encoded->bad.size(), 1u);
  EXPECT_EQ(encoded->bad[0].index, 2u);
  EXPECT_EQ(encoded->bad[0].reason, "odd");
}

TEST_F(TokenizerPoolTest, AMaskOrABadRowThatCannotBeIsGarbage) {
  auto pool = make(options());
  for (const char* word : {"MASKED-TWO:", "MASKED-STRAY:"}) {
    auto encoded = encode(*pool, {word, "ab"});
    ASSERT_FALSE(encoded.ok()) << word;
    EXPECT_EQ(encoded.status().code(), Code::kUnavailable) << word;
  }
}

TEST_F(TokenizerPoolTest, GreetingComesOnceAndIsKept) {
  auto pool = make(options());
  for (int i = 0; i < 2; ++i) {
    auto greeting = pool->greeting();
    ASSERT_TRUE(greeting.ok()) << greeting.status().message();
    EXPECT_EQ(*greeting, (TokenizerGreeting{"1", "d1", 256}));
  }
  EXPECT_EQ(pool->stats().starts, 1u);
}

TEST_F(TokenizerPoolTest, ABatchWithoutRowsNeedsNoWorker) {
  auto pool = make(options());
  auto encoded = encode(*pool, {});
  ASSERT_TRUE(encoded.ok());
  EXPECT_TRUE(encoded->ends.empty());
  EXPECT_EQ(pool->stats().starts, 0u);
}

TEST_F(TokenizerPoolTest, LargeBatchesPassThePipes) {
  auto pool = make(options());
  const std::string text(5 << 20, 'x');
  auto encoded = encode(*pool, {text, "y", text});
  ASSERT_TRUE(encoded.ok()) << encoded.status().message();
  ASSERT_EQ(encoded->tokens.size(), 2 * text.size() + 1);
  EXPECT_EQ(encoded->tokens[text.size()], 'y');
}

TEST_F(TokenizerPoolTest, ManyBatchesOverSeveralWorkers) {
  TokenizerPoolOptions several = options();
  several.workers = 3;
  auto pool = make(several);
  Answers answers;
  for (int i = 0; i < 200; ++i) pool->encode(rows_of({"abc", "d"}), CancelToken(), answers.next());
  ASSERT_TRUE(answers.wait(200));
  for (auto& result : answers.results()) {
    ASSERT_TRUE(result.ok()) << result.status().message();
    EXPECT_EQ(result->tokens.size(), 4u);
  }
  EXPECT_EQ(answers.threads().count(std::this_thread::get_id()), 0u);
  EXPECT_LE(pool->stats().starts, 3u);
  EXPECT_EQ(pool->stats().queued, 0u);
  EXPECT_EQ(pool->stats().queued_bytes, 0u);
}

TEST_F(TokenizerPoolTest, OneBatchAtATimeStaysWithTheWarmWorkers) {
  TokenizerPoolOptions several = options();
  several.workers = 12;
  auto pool = make(several);
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(encode(*pool, {"abc"}).ok());
  // Not exactly one: an answer may come back, and be followed, before its seat is free again.
  EXPECT_LE(pool->stats().starts, 4u);
}

TEST_F(TokenizerPoolTest, ACrashCostsOneRetriedBatch) {
  auto pool = make(options());
  const std::string text = once("CRASH-ONCE");
  auto encoded = encode(*pool, {text});
  ASSERT_TRUE(encoded.ok()) << encoded.status().message();
  EXPECT_EQ(encoded->tokens.size(), text.size());
  EXPECT_EQ(pool->stats().failures, 1u);
  EXPECT_EQ(pool->stats().starts, 2u);
}

TEST_F(TokenizerPoolTest, ASecondCrashIsToldWithStatusAndLastWords) {
  auto pool = make(options());
  const Status status = encode(*pool, {"CRASH"}).status();
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_NE(status.message().find("exit status 3"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("line one\nthe reason"), std::string::npos) << status.message();
  EXPECT_EQ(pool->stats().failures, 2u);
  const Status aborted = encode(*pool, {"ABORT"}).status();
  EXPECT_NE(aborted.message().find("signal 6"), std::string::npos) << aborted.message();
  EXPECT_TRUE(encode(*pool, {"still here"}).ok());
}

// On a busy machine a while passes between the last word of a process and its end.
TEST_F(TokenizerPoolTest, AWorkerThatTakesItsTimeToDieIsToldByItsOwnEnd) {
  auto pool = make(options());
  const Status status = encode(*pool, {"LEAVE"}).status();
  EXPECT_NE(status.message().find("exit status 4"), std::string::npos) << status.message();
}

TEST_F(TokenizerPoolTest, KillsByOthersAreForgivenUpToALimit) {
  auto pool = make(options());
  ASSERT_TRUE(encode(*pool, {once("KILLED-THRICE")}).ok());
  EXPECT_EQ(pool->stats().failures, 3u);
  const Status status = encode(*pool, {"KILLED"}).status();
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_NE(status.message().find("signal 9"), std::string::npos) << status.message();
  EXPECT_LE(pool->stats().starts, 20u);
}

TEST_F(TokenizerPoolTest, AHungWorkerIsReplaced) {
  TokenizerPoolOptions impatient = options();
  impatient.progress_deadline_ns = 3 * kSecond;  // enough for a good worker, however busy
  auto pool = make(impatient);
  EXPECT_TRUE(encode(*pool, {once("HANG-ONCE")}).ok());
  EXPECT_EQ(pool->stats().failures, 1u);
}

TEST_F(TokenizerPoolTest, ABatchThatAlwaysHangsFails) {
  TokenizerPoolOptions impatient = options();
  impatient.progress_deadline_ns = 100 * kMillisecond;
  auto pool = make(impatient);
  const Status status = encode(*pool, {"HANG"}).status();
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_NE(status.message().find("no progress"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("had to be killed"), std::string::npos) << status.message();
}

TEST_F(TokenizerPoolTest, GarbageIsNotBelieved) {
  auto pool = make(options());
  EXPECT_TRUE(encode(*pool, {once("GARBAGE-ONCE")}).ok());
  for (const char* word : {"GARBAGE", "ROWS", "MANY", "ENDS", "NEGATIVE", "BEYOND"}) {
    const Status status = encode(*pool, {word}).status();
    EXPECT_EQ(status.code(), Code::kUnavailable) << word;
    EXPECT_NE(status.message().find("sent garbage"), std::string::npos) << status.message();
  }
  EXPECT_TRUE(encode(*pool, {"fine"}).ok());
}

TEST_F(TokenizerPoolTest, AWorkerThatTalksAndDoesNotListenIsNoDeadlock) {
  auto pool = make(options("deaf"));
  const Status status = encode(*pool, {std::string(8 << 20, 'x')}).status();
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_NE(status.message().find("without reading"), std::string::npos) << status.message();
}

TEST_F(TokenizerPoolTest, AnErrorAnswerIsBadDataAndTheWorkerStays) {
  auto pool = make(options());
  const Status status = encode(*pool, {"ERROR"}).status();
  EXPECT_EQ(status.code(), Code::kBadData);
  EXPECT_NE(status.message().find("row 0 is not text"), std::string::npos);
  EXPECT_TRUE(encode(*pool, {"fine"}).ok());
  EXPECT_EQ(pool->stats().starts, 1u);
  EXPECT_EQ(pool->stats().failed, 1u);
}

TEST_F(TokenizerPoolTest, ASlowStartIsNotAHang) {
  TokenizerPoolOptions slow = options("slow");
  slow.progress_deadline_ns = 300 * kMillisecond;
  auto pool = make(slow);
  auto greeting = pool->greeting();
  EXPECT_TRUE(greeting.ok()) << greeting.status().message();
  EXPECT_EQ(pool->stats().starts, 1u);
}

TEST_F(TokenizerPoolTest, AWorkerThatNeverGreetsIsGivenUp) {
  TokenizerPoolOptions silent = options("silent");
  silent.start_deadline_ns = 200 * kMillisecond;
  auto pool = make(silent);
  EXPECT_EQ(encode(*pool, {"text"}).status().code(), Code::kUnavailable);
  EXPECT_EQ(pool->stats().starts, 2u);
  EXPECT_EQ(pool->greeting().status().code(), Code::kUnavailable);
}

TEST_F(TokenizerPoolTest, BadGreetingsAreTold) {
  for (const char* mode : {"babble", "endless"}) {
    auto pool = make(options(mode));
    const Status status = pool->greeting().status();
    EXPECT_EQ(status.code(), Code::kUnavailable) << mode;
    EXPECT_NE(status.message().find("sent garbage"), std::string::npos) << status.message();
  }
  auto refusing = make(options("refuse"));
  EXPECT_EQ(refusing->greeting().status().code(), Code::kBadData);
  EXPECT_EQ(refusing->stats().starts, 1u);
  auto dying = make(options("die"));
  const Status status = dying->greeting().status();
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_NE(status.message().find("died at birth"), std::string::npos) << status.message();
}

TEST_F(TokenizerPoolTest, AnotherTokenizerIsRefused) {
  TokenizerPoolOptions other = options();
  other.expected_digest = "d2";
  EXPECT_EQ(encode(*make(other), {"text"}).status().code(), Code::kStateMismatch);

  auto pool = make(options("changing"));
  ASSERT_TRUE(encode(*pool, {"text"}).ok());
  EXPECT_EQ(encode(*pool, {"CRASH"}).status().code(), Code::kStateMismatch);
  EXPECT_EQ(encode(*pool, {"text"}).status().code(), Code::kStateMismatch);
}

TEST_F(TokenizerPoolTest, ALoudWorkerIsNotHeldUpAndKeepsItsLastWords) {
  auto pool = make(options("noisy"));
  const Status status = encode(*pool, {"ABORT"}).status();
  EXPECT_NE(status.message().find("last words"), std::string::npos) << status.message();
  EXPECT_LT(status.message().size(), 8192u);
}

TEST_F(TokenizerPoolTest, WorkersInheritTheEnvironmentAndNoDescriptors) {
  const int leaky = open("/dev/null", O_RDONLY);  // inheritable, as a host might have it
  TokenizerPoolOptions changed = options("environment");
  changed.environment = {"OL_TEST_NAME=here"};
  auto greeting = make(changed)->greeting();
  close(leaky);
  ASSERT_TRUE(greeting.ok()) << greeting.status().message();
  EXPECT_EQ(greeting->digest, "here:0,1,2,3");  // 3 is the listing itself
}

TEST_F(TokenizerPoolTest, BadOptionsAndCommandsAreErrors) {
  EXPECT_EQ(TokenizerPool::make({}).status().code(), Code::kInvalidArgument);
  TokenizerPoolOptions none = options();
  none.workers = 0;
  EXPECT_EQ(TokenizerPool::make(none).status().code(), Code::kInvalidArgument);
  TokenizerPoolOptions missing = options();
  missing.argv = {"/nonexistent/tokenizer"};
  const Status status = encode(*make(missing), {"text"}).status();
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_NE(status.message().find("/nonexistent/tokenizer"), std::string::npos);
  auto pool = make(options());
  Answers answers;
  pool->encode({"abc", {2}}, CancelToken(), answers.next());
  ASSERT_TRUE(answers.wait(1));
  EXPECT_EQ(answers.results()[0].status().code(), Code::kInvalidArgument);
}

TEST_F(TokenizerPoolTest, AFullQueueRefusesAndCancelledBatchesAreSkipped) {
  TokenizerPoolOptions small = options();
  small.queue_limit_bytes = 100;
  auto pool = make(small);
  std::mutex gate;
  std::condition_variable changed;
  bool inside = false, open = false;
  pool->encode(rows_of({"first"}), CancelToken(), [&](Result<EncodedRows>) {
    std::unique_lock lock(gate);
    inside = true;
    changed.notify_all();
    changed.wait_for(lock, std::chrono::seconds(120), [&] { return open; });
  });
  {
    std::unique_lock lock(gate);  // the only worker thread is held in its callback from here
    ASSERT_TRUE(changed.wait_for(lock, std::chrono::seconds(120), [&] { return inside; }));
  }
  Answers answers;
  CancelToken withdrawn;
  pool->encode(rows_of({std::string(1000, 'x')}), withdrawn, answers.next());  // alone: it fits
  pool->encode(rows_of({"over the limit"}), CancelToken(), answers.next());
  withdrawn.cancel();
  EXPECT_EQ(pool->stats().refused, 1u);
  {
    const std::lock_guard lock(gate);
    open = true;
    changed.notify_all();
  }
  ASSERT_TRUE(answers.wait(2));
  EXPECT_EQ(answers.results()[0].status().code(), Code::kResource);
  EXPECT_EQ(answers.results()[1].status().code(), Code::kCancelled);
}

TEST_F(TokenizerPoolTest, DestructionIsQuickAndAnswersEverything) {
  TokenizerPoolOptions several = options();
  several.workers = 2;
  auto pool = make(several);
  ASSERT_TRUE(encode(*pool, {"warm"}).ok());
  Answers answers;
  for (int i = 0; i < 10; ++i) pool->encode(rows_of({"HANG"}), CancelToken(), answers.next());
  const int64_t begin = runtime::steady_now_ns();
  pool.reset();
  const int64_t took = runtime::steady_now_ns() - begin;
  EXPECT_LT(took, kSecond);  // 20 to 40 ms where the machine is ours
  RecordProperty("destruction_ms", std::to_string(took / kMillisecond));
  ASSERT_EQ(answers.results().size(), 10u);
  for (auto& result : answers.results()) {
    EXPECT_EQ(result.status().code(), Code::kCancelled) << result.status().message();
  }
}

TEST_F(TokenizerPoolTest, AnUnusedPoolLeavesNothing) {
  auto pool = make(options());
  EXPECT_FALSE(has_children());
}

}  // namespace
}  // namespace overlord::workers
