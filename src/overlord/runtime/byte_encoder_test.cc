#include "overlord/runtime/byte_encoder.h"

#include <gtest/gtest.h>

#include <deque>
#include <optional>
#include <string>
#include <utility>

namespace overlord::runtime {
namespace {

// Runs tasks when told to, on the test's own thread.
class HandExecutor : public Executor {
 public:
  void post(Task task) override { tasks_.push_back(std::move(task)); }
  void post_after(int64_t, Task task) override { post(std::move(task)); }
  void run_all() {
    while (!tasks_.empty()) {
      Task task = std::move(tasks_.front());
      tasks_.pop_front();
      task();
    }
  }

 private:
  std::deque<Task> tasks_;
};

Result<EncodedRows> encode(TextRows rows, CancelToken cancel = {}) {
  HandExecutor executor;
  std::optional<Result<EncodedRows>> answer;
  {
    ByteEncoder encoder(executor);
    encoder.encode(std::move(rows), cancel,
                   [&](Result<EncodedRows> result) { answer = std::move(result); });
  }
  EXPECT_FALSE(answer.has_value());  // never on the caller's stack
  executor.run_all();                // and without the encoder
  return answer.has_value() ? *answer : Result<EncodedRows>(internal_error("no answer"));
}

TEST(ByteEncoder, TokensAreBytes) {
  auto encoded = encode({std::string("ab\xff\0c", 5), {2, 2, 5}});
  ASSERT_TRUE(encoded.ok());
  EXPECT_EQ(encoded->tokens, (std::vector<int32_t>{'a', 'b', 255, 0, 'c'}));
  EXPECT_EQ(encoded->ends, (std::vector<uint64_t>{2, 2, 5}));
}

TEST(ByteEncoder, NoRowsGiveNoTokens) {
  auto encoded = encode({});
  ASSERT_TRUE(encoded.ok());
  EXPECT_TRUE(encoded->tokens.empty());
  EXPECT_TRUE(encoded->ends.empty());
}

TEST(ByteEncoder, RefusesRowsThatDoNotFitTheirBytes) {
  EXPECT_EQ(encode({"abc", {2}}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(encode({"abc", {}}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(encode({"abc", {2, 1, 3}}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(encode({"abc", {4, 3}}).status().code(), Code::kInvalidArgument);
}

TEST(ByteEncoder, ACancelledBatchSaysSo) {
  CancelToken cancel;
  cancel.cancel();
  EXPECT_EQ(encode({"abc", {3}}, cancel).status().code(), Code::kCancelled);
}

}  // namespace
}  // namespace overlord::runtime
