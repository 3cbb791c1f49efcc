#include "overlord/columnar/index/length_pass.h"

#include <gtest/gtest.h>

#include <thread>

#include "overlord/columnar/index/index_layout.h"
#include "overlord/columnar/index/index_naming.h"
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
    source_.tokenizer = {model::TokenizerKind::kHuggingface, "", "tokenizer-1", false};
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

TEST_F(LengthPassTest, LengthsOfAnotherTokenizerAreRefused) {
  use_corpus();
  const auto first = build_index_bytes(storage_, &encoder_, source_, options_, nullptr, {});
  ASSERT_TRUE(first.ok());
  source_.tokenizer.digest = "tokenizer-2";
  const Status status = SourceIndex::from_bytes(*first, source_).status();
  EXPECT_EQ(status.code(), Code::kStateMismatch);
  EXPECT_TRUE(contains(status.message(), "tokenizer was 'tokenizer-1', is 'tokenizer-2'"));
}

TEST_F(LengthPassTest, LengthsAreInNoDigestWhereDecodingFindsTheSame) {
  use_corpus();
  storage_.put("mem:/bad.jsonl", "broken\n{\"text\": \"---\"}\n");
  source_.files.push_back("mem:/bad.jsonl");
  const auto file = [&] {
    auto bytes = build_index_bytes(storage_, &encoder_, source_, options_, nullptr, {});
    return *IndexFile::from_bytes(std::move(*bytes), "(in memory)");
  };
  const auto counted = file();
  options_.lengths = false;
  const auto plain = file();
  EXPECT_EQ(counted->digest(), plain->digest());
  EXPECT_EQ(layout::older_digest(*plain), plain->digest());
  EXPECT_NE(layout::older_digest(*counted), plain->digest());

  // What a user's own code says of a row may depend on more than its bytes.
  source_.transform.function = "own:loud";
  EXPECT_EQ(file()->digest(), plain->digest());
  options_.lengths = true;
  const auto transformed = file();
  EXPECT_NE(transformed->digest(), plain->digest());
  EXPECT_EQ(transformed->digest(), layout::older_digest(*transformed));
}

TEST_F(LengthPassTest, OnlyWhatDecidesTheIndexIsInItsKey) {
  const auto key = [&](const std::vector<std::string>& patterns = {"*.jsonl"}) {
    return index_key(source_, options_, patterns);
  };
  const std::string first = key();
  EXPECT_EQ(first.size(), 16u);
  options_.lengths = false;
  options_.threads = 7;
  source_.name = "other";
  source_.eod = 1;
  source_.at_end = model::EndPolicy::kStop;
  source_.media.clear();
  EXPECT_EQ(key(), first);
  EXPECT_NE(key({"*.jsonl", "more.jsonl"}), first);
  source_.tokenizer.digest = "tokenizer-2";
  EXPECT_NE(key(), first);
  source_.tokenizer.digest = "tokenizer-1";
  source_.vocabulary = 12;
  EXPECT_NE(key(), first);
  source_.vocabulary = 0;
  source_.metadata_columns = {"n"};
  EXPECT_NE(key(), first);
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
