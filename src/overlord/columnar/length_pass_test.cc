#include "overlord/columnar/length_pass.h"

#include <gtest/gtest.h>

#include <thread>

#include "overlord/columnar/reading_test.h"

namespace overlord::columnar {
namespace {

using testing::CorpusSpec;

// One token per letter, answered from another thread, out of order when `late` says so.
class LetterEncoder final : public runtime::TextEncoder {
 public:
  ~LetterEncoder() override {
    for (std::thread& thread : threads_) thread.join();
  }
  void encode(runtime::TextRows rows, runtime::CancelToken, runtime::EncodeDone done) override {
    ++batches;
    if (drop) return;
    threads_.emplace_back([this, rows = std::move(rows), done = std::move(done)] {
      if (!fail.ok()) return done(fail);
      runtime::EncodedRows encoded;
      for (size_t i = 0; i < rows.rows(); ++i) {
        for (const char c : rows.row(i)) {
          if (c != '-') encoded.tokens.push_back(c);
        }
        encoded.ends.push_back(encoded.tokens.size());
      }
      if (lose_a_row) encoded.ends.pop_back();
      done(std::move(encoded));
    });
  }

  int batches = 0;
  bool drop = false;
  bool lose_a_row = false;
  Status fail;

 private:
  std::vector<std::thread> threads_;
};

class LengthPassTest : public ::testing::Test {
 protected:
  LengthPassTest() {
    source_.name = "web";
    source_.format = model::Format::kJsonl;
    source_.text_column = "text";
    source_.tokenizer = {model::TokenizerKind::kHuggingFace, "", "tokenizer-1", false};
    options_.lengths = true;
    options_.threads = 1;
    options_.block_rows = 4;
  }
  Result<std::shared_ptr<const SourceIndex>> build_it() {
    return build(storage_, source_, options_, &encoder_);
  }
  void use_corpus() {
    const testing::Files files = testing::jsonl_text_corpus(spec_);
    put_all(files, &storage_);
    source_.files = testing::shard_uris(files);
  }

  CorpusSpec spec_;
  runtime::MemoryStorage storage_;
  model::Source source_;
  IndexOptions options_;
  LetterEncoder encoder_;
};

TEST_F(LengthPassTest, LengthsAreWhatTheEncoderGives) {
  use_corpus();
  const auto index = build_it();
  ASSERT_TRUE(index.ok()) << index.status().message();
  EXPECT_EQ((*index)->manifest().meta_origin, model::MetaOrigin::kIndex);
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ((*index)->manifest().lengths[i], testing::document_tokens(spec_, i));
  }
  EXPECT_GT(encoder_.batches, 20);
}

TEST_F(LengthPassTest, BadRowsAreRecordedInOrder) {
  storage_.put(
      "mem:/a.jsonl",
      "{\"text\": \"abc\"}\nbroken\n{\"text\": \"---\"}\n{\"text\": \"\"}\n{\"text\": \"de\"}\n");
  source_.files = {"mem:/a.jsonl"};
  const auto index = build_it();
  ASSERT_TRUE(index.ok()) << index.status().message();
  const auto lengths = (*index)->manifest().lengths;
  EXPECT_EQ(std::vector<uint32_t>(lengths.begin(), lengths.end()),
            (std::vector<uint32_t>{3, model::kBadRow, model::kBadRow, model::kBadRow, 2}));
  const auto bad = (*index)->bad_rows();
  ASSERT_EQ(bad.size(), 3u);
  EXPECT_TRUE(contains(bad[0].second, "invalid JSON"));
  EXPECT_TRUE(contains(bad[1].second, "row 2: ") && contains(bad[1].second, "no tokens"));
  EXPECT_TRUE(contains(bad[2].second, "empty text"));
}

TEST_F(LengthPassTest, AnotherTokenizerIsAnotherSource) {
  use_corpus();
  const auto first = build_index_bytes(storage_, &encoder_, source_, options_, nullptr, {});
  ASSERT_TRUE(first.ok());
  const Digest digest = (*SourceIndex::from_bytes(*first, source_))->manifest().digest;
  source_.tokenizer.digest = "tokenizer-2";
  const Status status = SourceIndex::from_bytes(*first, source_).status();
  EXPECT_EQ(status.code(), Code::kStateMismatch);
  EXPECT_TRUE(contains(status.message(), "tokenizer was 'tokenizer-1', is 'tokenizer-2'"));
  EXPECT_NE((*build_it())->manifest().digest, digest);
}

TEST_F(LengthPassTest, FailuresOfTheEncoderEndTheBuild) {
  use_corpus();
  encoder_.fail = Status(Code::kUnavailable, "tokenizer process died");
  EXPECT_EQ(build_it().status().code(), Code::kUnavailable);
  encoder_.fail = {};
  encoder_.lose_a_row = true;
  EXPECT_EQ(build_it().status().code(), Code::kInternal);
  encoder_.lose_a_row = false;
  encoder_.drop = true;  // a callback that never comes must not hang the build
  EXPECT_EQ(build_it().status().code(), Code::kCancelled);
  EXPECT_EQ(build(storage_, source_, options_).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace overlord::columnar
