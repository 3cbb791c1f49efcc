// Whether saved data are those of a job, and what is advised where they are not.
#include "overlord/node/engine/data_match.h"

#include <gtest/gtest.h>

#include "overlord/columnar/index/index_file.h"
#include "overlord/columnar/index/index_layout.h"
#include "overlord/columnar/index/source_index.h"
#include "overlord/host/made_up_job_test.h"
#include "overlord/runtime/in_memory/memory_storage.h"
#include "overlord/storage/temporary_directory_test.h"
#include "overlord/testing/corpus.h"

namespace overlord::node {
namespace {

// A job of one source whose index lies in a folder.
class DataMatch : public ::testing::Test {
 protected:
  void open(model::Format format, bool lengths) {
    testing::CorpusSpec corpus;
    corpus.documents = 5;
    source_ = host::made_up_source("demo");
    source_.format = format;
    const bool megatron = format == model::Format::kMegatron;
    if (megatron) source_.token_column.clear();
    const testing::Files files =
        megatron ? testing::megatron_corpus(corpus) : testing::jsonl_token_corpus(corpus);
    for (const auto& [uri, bytes] : files) storage_.put(uri, bytes);
    source_.files = testing::shard_uris(files);
    columnar::IndexOptions options;
    options.threads = 1;
    options.lengths = lengths;
    const auto bytes = columnar::build_index_bytes(storage_, nullptr, source_, options, nullptr,
                                                   runtime::CancelToken());
    ASSERT_TRUE(bytes.ok()) << bytes.status().message();
    folder_.write("demo.index", *bytes);
    index_ = *columnar::IndexFile::map(folder_.path("demo.index"));
    auto open = std::make_shared<loader::OpenSource>();
    open->spec = source_;
    open->manifest.name = "demo";
    open->manifest.digest = index_->digest();
    open->manifest.rows = index_->rows();
    host::MadeUpJob made_up;
    made_up.add(open);
    job_ = *made_up.open();
    saved_ = host::start_state(*job_);
  }
  // The advice of the one source; none: its data are the same.
  std::optional<std::string> advice() {
    const auto changed = match_data(*job_, {folder_.path("demo.index")}, &saved_);
    EXPECT_LE(changed.size(), 1u);
    return changed.empty() ? std::nullopt : std::optional(changed.at("demo"));
  }
  bool advised(const std::string& words) {
    const auto got = advice();
    return got && got->find(words) != std::string::npos;
  }

  storage::TemporaryDirectory folder_;
  runtime::MemoryStorage storage_;
  model::Source source_;
  std::shared_ptr<const columnar::IndexFile> index_;
  std::shared_ptr<const host::OpenJob> job_;
  protocol::ResumeState saved_;
};

TEST_F(DataMatch, ByTheHalfOfTheDigestThatAStateKeeps) {
  open(model::Format::kJsonl, true);
  saved_.source_digests[0].high += 1;
  const Digest before = saved_.source_digests[0];
  EXPECT_FALSE(advice().has_value());
  EXPECT_EQ(saved_.source_digests[0], before);
}

TEST_F(DataMatch, ADigestOfBuildsBeforeIsReplaced) {
  open(model::Format::kJsonl, true);
  saved_.source_digests[0] = columnar::layout::older_digest(*index_);
  ASSERT_NE(saved_.source_digests[0].low, index_->digest().low);
  EXPECT_FALSE(advice().has_value());
  EXPECT_EQ(saved_.source_digests[0], index_->digest());
}

TEST_F(DataMatch, OtherDataAreNamedAndTheStateIsLeftAsItIs) {
  open(model::Format::kJsonl, true);
  saved_.source_digests[0] = {1, 2};
  EXPECT_EQ(advice(), "") << "counting changes nothing, so nothing can be advised";
  EXPECT_EQ(saved_.source_digests[0], (Digest{1, 2}));
  saved_.source_names[0] = "other";
  EXPECT_FALSE(advice().has_value()) << "a source that the state does not know";
}

TEST_F(DataMatch, AdvisesTheIndexThatTheStateMayHaveBeenSavedWith) {
  open(model::Format::kJsonl, false);
  saved_.source_digests[0] = {1, 2};
  EXPECT_TRUE(advised("run `overlord index --lengths`"));
  open(model::Format::kMegatron, true);
  saved_.source_digests[0] = {1, 2};
  EXPECT_TRUE(advised("a count of bare tokens"));
  EXPECT_TRUE(advised("demo.index' away, run `overlord index` without --lengths")) << *advice();
}

TEST_F(DataMatch, AnIndexThatWasReplacedSaysNothingOfTheJob) {
  open(model::Format::kJsonl, true);
  const auto job = job_;
  saved_.source_digests[0] = columnar::layout::older_digest(*index_);
  const protocol::ResumeState saved = saved_;
  open(model::Format::kMegatron, false);  // in its place: its own advice would be another
  job_ = job;
  saved_ = saved;
  EXPECT_EQ(advice(), "");
  folder_.write("demo.index", "");
  EXPECT_EQ(advice(), "");
}

TEST_F(DataMatch, ARefusalComesWithTheAdvice) {
  open(model::Format::kJsonl, false);
  const std::vector<std::string> paths = {folder_.path("demo.index")};
  EXPECT_TRUE(resume_from(*job_, paths, saved_, {}).ok());
  saved_.source_digests[0] = {1, 2};
  const Status refused = resume_from(*job_, paths, saved_, {}).status();
  EXPECT_EQ(refused.code(), Code::kStateMismatch);
  EXPECT_NE(refused.message().find("data of source demo"), std::string::npos);
  EXPECT_NE(refused.message().find("\n  source demo; if it was saved with lengths"),
            std::string::npos)
      << refused.message();
}

}  // namespace
}  // namespace overlord::node
