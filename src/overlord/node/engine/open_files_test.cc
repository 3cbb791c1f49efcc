// From index files to a job: what is compared before anything is read, and how a block becomes
// tokens.
#include "overlord/node/engine/open_files.h"

#include <gtest/gtest.h>

#include "overlord/columnar/index/source_index.h"
#include "overlord/host/made_up_job_test.h"
#include "overlord/runtime/byte_encoder.h"
#include "overlord/storage/temporary_directory_test.h"
#include "overlord/testing/corpus.h"

namespace overlord::node {
namespace {

class AtOnce final : public runtime::Executor {
 public:
  void post(runtime::Task task) override { task(); }
  void post_after(int64_t, runtime::Task task) override { task(); }
};

// One source of texts in a folder, with its index.
class OpenFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    corpus_.documents = 3;
    corpus_.shards = 1;
    corpus_.directory = folder_.path("data");
    model::Source source = host::made_up_source("demo");
    source.token_column.clear();
    source.text_column = "text";
    source.tokenizer = {model::TokenizerKind::kBytes, "", "bytes", false};
    source.count_bytes = true;
    for (const auto& [path, bytes] : testing::jsonl_text_corpus(corpus_)) {
      folder_.write(path.substr(folder_.path().size()), bytes);
      source.files.push_back(path);
    }
    made_up_.spec.sources = {source};
    made_up_.spec.mixture.stages[0].weights = {model::kWeightOne};
    auto storage = open_storage_of(made_up_.spec, {runtime::BufferPool::make(1 << 20), 1, 4});
    ASSERT_TRUE(storage.ok()) << storage.status().message();
    storage_ = std::move(*storage);
    columnar::IndexOptions options;
    options.threads = 1;
    const Status built = columnar::build_index(*storage_, nullptr, source, index_, {}, options,
                                               nullptr, runtime::CancelToken());
    ASSERT_TRUE(built.ok()) << built.message();
  }
  Result<std::shared_ptr<const host::OpenJob>> open(const std::vector<std::string>& paths) {
    return open_files(made_up_.spec, made_up_.delivery, made_up_.mesh(), paths, *storage_);
  }

  storage::TemporaryDirectory folder_;
  testing::CorpusSpec corpus_;
  const std::string index_ = folder_.path("demo.index");
  host::MadeUpJob made_up_;
  std::unique_ptr<runtime::Storage> storage_;
};

TEST_F(OpenFiles, TheSpecIsLookedAtBeforeAnyFile) {
  made_up_.spec.bins = 0;
  host::expect_refused(open({folder_.path("none")}).status(), "bins: starts at 1");
  made_up_.spec.bins = 8;
  host::expect_refused(open({}).status(), "index paths: one per source");
  EXPECT_EQ(open({folder_.path("none")}).status().code(), Code::kNotFound);
  EXPECT_TRUE(open({index_}).ok()) << open({index_}).status().message();
}

TEST_F(OpenFiles, AShardThatChangedIsRefusedByName) {
  const std::string shard = made_up_.spec.sources[0].files[0];
  const std::string name = shard.substr(folder_.path().size());
  folder_.write(name, folder_.read(name) + "{\"text\": \"more\"}\n");
  const Status refused = open({index_}).status();
  host::expect_refused(refused, shard, Code::kSourceChanged);
}

TEST_F(OpenFiles, OnlyWhatSomethingServesIsStored) {
  made_up_.spec.sources[0].files.push_back("gopher://corpus");
  host::expect_refused(
      open_storage_of(made_up_.spec, {runtime::BufferPool::make(1 << 20), 1, 4}).status(),
      "gopher");
}

TEST_F(OpenFiles, ABlockOfTextComesBackAsItsTokensAndBytes) {
  const auto job = open({index_});
  ASSERT_TRUE(job.ok()) << job.status().message();
  AtOnce executor;
  runtime::ByteEncoder encoder(executor);
  const auto block = read_tokens(*(*job)->sources[0], *storage_, &encoder, 0);
  ASSERT_TRUE(block.ok()) << block.status().message();
  ASSERT_EQ((*block)->counts.size(), 3u);
  for (uint64_t row = 0; row < 3; ++row) {
    const size_t size_bytes = testing::text_of(corpus_, row).size();
    EXPECT_EQ((*block)->counts[row], size_bytes);
    EXPECT_EQ((*block)->text_bytes[row], size_bytes) << "the mixture counts them";
  }
  const auto rows = read_block(*(*job)->sources[0], *storage_, 0);
  ASSERT_TRUE(rows.ok());
  EXPECT_TRUE(rows->is_text);
  EXPECT_EQ(rows->text.rows.row(1), testing::text_of(corpus_, 1));
}

}  // namespace
}  // namespace overlord::node
