// Which sources share an encoder.
#include "overlord/node/functions/encoders.h"

#include <gtest/gtest.h>

#include "overlord/runtime/thread_executor.h"

namespace overlord::node {
namespace {

model::Source text_source(const std::string& name, model::TokenizerKind kind) {
  model::Source source;
  source.name = name;
  source.tokenizer.kind = kind;
  source.tokenizer.path = "tokenizer.json";
  source.tokenizer.digest = "digest";
  return source;
}

class EncodersTest : public ::testing::Test {
 protected:
  runtime::ThreadExecutor executor_{1};
  Encoders encoders_{executor_, {}, 1};
};

TEST_F(EncodersTest, ReadyTokensHaveNoneAndBytesShareOne) {
  EXPECT_EQ(*encoders_.get(text_source("a", model::TokenizerKind::kNone)), nullptr);
  runtime::TextEncoder* const one = *encoders_.get(text_source("a", model::TokenizerKind::kBytes));
  ASSERT_NE(one, nullptr);
  model::Source other = text_source("b", model::TokenizerKind::kBytes);
  other.tokenizer.digest = "other";
  EXPECT_EQ(*encoders_.get(other), one);
  const auto rows = encode_blocking(*one, {"ab", {1, 2}});
  ASSERT_TRUE(rows.ok()) << rows.status().message();
  EXPECT_EQ(rows->tokens, (std::vector<int32_t>{'a', 'b'}));
}

TEST_F(EncodersTest, ATokenizerNeedsWhoRunsIt) {
  const Status refused =
      encoders_.get(text_source("a", model::TokenizerKind::kHuggingface)).status();
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_NE(refused.message().find("source a: a Hugging Face tokenizer needs a worker command"),
            std::string::npos)
      << refused.message();
}

TEST_F(EncodersTest, EverySourceHasItsOwnTransform) {
  const auto desk = std::make_shared<TransformDesk>();
  encoders_.set_transforms({desk, true});
  const auto transformed = [](const std::string& name) {
    model::Source source = text_source(name, model::TokenizerKind::kBytes);
    source.transform.function = "own:f";
    source.transform.lane = model::Lane::kThread;
    return source;
  };
  const auto one = encoders_.get(transformed("a"));
  ASSERT_TRUE(one.ok()) << one.status().message();
  EXPECT_EQ(*encoders_.get(transformed("a")), *one);
  EXPECT_NE(*encoders_.get(transformed("b")), *one) << "each names its source in what it says";
  EXPECT_NE(*encoders_.get(text_source("a", model::TokenizerKind::kBytes)), *one);
  encoders_.clear();
  EXPECT_TRUE(desk->closed()) << "whoever waits there is told";
}

}  // namespace
}  // namespace overlord::node
