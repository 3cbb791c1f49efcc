#include "overlord/columnar/index/source_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "overlord/base/hash.h"
#include "overlord/columnar/index/foreign_index_test.h"
#include "overlord/columnar/index/index_naming.h"
#include "overlord/columnar/reading_test.h"

namespace overlord::columnar {
namespace {

using testing::CorpusSpec;

class IndexTest : public ::testing::Test {
 protected:
  IndexTest() : files_(testing::megatron_corpus(spec())) {
    put_all(files_, &storage_);
    source_.name = "demo";
    source_.format = model::Format::kMegatron;
    source_.files = testing::shard_uris(files_);
    std::string pattern = (std::filesystem::temp_directory_path() / "index-XXXXXX").string();
    directory_ = ::mkdtemp(pattern.data());
  }
  ~IndexTest() override { std::filesystem::remove_all(directory_); }

  static CorpusSpec spec() {
    CorpusSpec spec;
    spec.shards = 4;
    return spec;
  }
  Status build_file(IndexOptions options = {}, IndexProgress* progress = nullptr) {
    return build_index(storage_, nullptr, source_, path(), {}, options, progress, {});
  }
  std::string path() const { return directory_ + "/demo.idx"; }
  std::string file_bytes() const {
    std::ifstream in(path(), std::ios::binary);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
  }

  testing::Files files_;
  runtime::MemoryStorage storage_;
  model::Source source_;
  std::string directory_;
};

TEST_F(IndexTest, MappedAndInMemoryAreTheSame) {
  ASSERT_TRUE(build_file().ok());
  const auto mapped = SourceIndex::open(path(), source_);
  ASSERT_TRUE(mapped.ok()) << mapped.status().message();
  const auto bytes = build_index_bytes(storage_, nullptr, source_, {}, nullptr, {});
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(*bytes, file_bytes());
  EXPECT_EQ((*mapped)->mapped_bytes(), bytes->size());
  EXPECT_EQ((*mapped)->manifest().rows, 200u);
  EXPECT_EQ((*mapped)->manifest().shards.size(), 4u);
  EXPECT_EQ((*mapped)->manifest().shards[3].first_row, 150u);
  EXPECT_TRUE((*mapped)->verify(storage_).ok());
  // No temporary file is left behind.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_), {}), 1);
}

TEST_F(IndexTest, ThreadsAndOrderOfListingChangeNothing) {
  IndexOptions options;
  options.threads = 1;
  const auto one = build_index_bytes(storage_, nullptr, source_, options, nullptr, {});
  options.threads = 4;
  std::reverse(source_.files.begin(), source_.files.end());
  const auto four = build_index_bytes(storage_, nullptr, source_, options, nullptr, {});
  ASSERT_TRUE(one.ok() && four.ok());
  EXPECT_EQ(*one, *four);
}

TEST_F(IndexTest, GlobsAreExpanded) {
  source_.files = {"mem:/corpus/demo-*.bin"};
  EXPECT_EQ((*build(storage_, source_))->manifest().shards.size(), 4u);
}

TEST_F(IndexTest, UnchangedShardsAreTakenOver) {
  ASSERT_TRUE(build_file().ok());
  const uint64_t before = storage_.reads();
  ASSERT_TRUE(build_file().ok());
  EXPECT_EQ(storage_.reads(), before);  // nothing was read, only looked at

  CorpusSpec other = spec();
  other.source = "other";
  const testing::Files others = testing::megatron_corpus(other);
  storage_.put("mem:/corpus/demo-00002.bin", others.at("mem:/corpus/other-00002.bin"));
  storage_.put("mem:/corpus/demo-00002.idx", others.at("mem:/corpus/other-00002.idx"));
  ASSERT_TRUE(build_file().ok());
  EXPECT_GT(storage_.reads(), before);
  const auto fresh = build_index_bytes(storage_, nullptr, source_, {}, nullptr, {});
  EXPECT_EQ(*fresh, file_bytes());  // an index says nothing of its history
}

TEST_F(IndexTest, ADamagedOldFileIsBuiltAnew) {
  std::ofstream(path()) << "garbage";
  EXPECT_EQ(SourceIndex::open(path(), source_).status().code(), Code::kBadData);
  ASSERT_TRUE(build_file().ok());
  EXPECT_TRUE(SourceIndex::open(path(), source_).ok());
}

TEST_F(IndexTest, DigestKnowsContentNotPlaceNorTime) {
  const Digest here = (*build(storage_, source_))->manifest().digest;
  runtime::MemoryStorage moved;
  model::Source source = source_;
  source.name = "renamed";
  source.files.clear();
  for (const auto& [uri, bytes] : files_) {
    const std::string to = "mem:/elsewhere/deep" + uri.substr(uri.rfind('/'));
    moved.put("mem:/other", "advances the clock");
    moved.put(to, bytes);
    if (to.ends_with(".bin")) source.files.push_back(to);
  }
  EXPECT_EQ((*build(moved, source))->manifest().digest, here);
  std::string changed = files_.at("mem:/corpus/demo-00001.bin");
  changed[changed.size() / 2] ^= 1;
  storage_.put("mem:/corpus/demo-00001.bin", changed);
  EXPECT_NE((*build(storage_, source_))->manifest().digest, here);
  IndexOptions options;
  options.block_rows = 13;
  EXPECT_NE((*build(storage_, source_, options))->manifest().digest, here);
}

TEST_F(IndexTest, AnIndexWithLengthsIsNotReplacedByOneWithout) {
  IndexOptions counting;
  counting.lengths = true;
  ASSERT_TRUE(build_file(counting).ok());
  const std::string counted = file_bytes();
  ASSERT_TRUE(build_file().ok());  // as of somebody who began before it was there
  EXPECT_EQ(file_bytes(), counted);
  storage_.put("mem:/corpus/demo-00001.bin", files_.at("mem:/corpus/demo-00001.bin"));
  ASSERT_TRUE(build_file().ok());  // of files that were written again
  EXPECT_NE(file_bytes(), counted);
}

TEST_F(IndexTest, ShardsOfAnotherIndexAreTakenOver) {
  ASSERT_TRUE(build_file().ok());
  const std::string other = directory_ + "/other.idx";
  const uint64_t reads = storage_.reads();
  EXPECT_TRUE(build_index(storage_, nullptr, source_, other, {directory_ + "/none.idx", path()}, {},
                          nullptr, {})
                  .ok());
  EXPECT_EQ(storage_.reads(), reads);
}

TEST_F(IndexTest, SameContentTwiceIsRefusedNamingBoth) {
  storage_.put("mem:/corpus/zz.bin", files_.at("mem:/corpus/demo-00001.bin"));
  storage_.put("mem:/corpus/zz.idx", files_.at("mem:/corpus/demo-00001.idx"));
  source_.files.push_back("mem:/corpus/zz.bin");
  const Status status = build_file();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(contains(status.message(), "demo-00001.bin"));
  EXPECT_TRUE(contains(status.message(), "zz.bin"));
  source_.files = {"mem:/corpus/demo-00001.bin", "mem:/corpus/demo-00001.bin"};
  EXPECT_TRUE(contains(build_file().message(), "twice"));
}

TEST_F(IndexTest, VerifyNamesWhatHappenedToAShard) {
  const auto index = build(storage_, source_);
  const std::string uri = "mem:/corpus/demo-00001.bin";
  const std::string bytes = files_.at(uri);
  const auto says = [&](const char* part) {
    const Status status = (*index)->verify(storage_);
    EXPECT_EQ(status.code(), Code::kSourceChanged) << part;
    EXPECT_TRUE(contains(status.message(), part)) << status.message();
    EXPECT_TRUE(contains(status.message(), "demo-00001")) << status.message();
  };
  storage_.put(uri, bytes + "x");
  says("grew");
  storage_.put(uri, bytes.substr(1));
  says("shrank");
  storage_.put(uri, std::string(bytes.size(), 'x'));
  says("replaced");
  storage_.put(uri, bytes);
  says("written again");
  storage_.remove(uri);
  says("vanished");
}

TEST_F(IndexTest, VerifySeesNewFiles) {
  source_.files = {"mem:/corpus/*.bin"};
  const auto index = build(storage_, source_);
  storage_.put("mem:/corpus/demo-00009.bin", "x");
  const Status status = (*index)->verify(storage_);
  EXPECT_EQ(status.code(), Code::kSourceChanged);
  EXPECT_TRUE(contains(status.message(), "demo-00009.bin"));
}

TEST_F(IndexTest, AnotherConfigIsRefusedNamingTheField) {
  ASSERT_TRUE(build_file().ok());
  model::Source other = source_;
  other.limits.max_document_bytes = 5;
  const Status status = SourceIndex::open(path(), other).status();
  EXPECT_EQ(status.code(), Code::kStateMismatch);
  EXPECT_TRUE(contains(status.message(), "max_document_bytes"));
  EXPECT_TRUE(contains(status.message(), "overlord index"));
  other = source_;
  other.format = model::Format::kJsonl;
  EXPECT_TRUE(
      contains(SourceIndex::open(path(), other).status().message(), "format was 'megatron'"));
}

TEST_F(IndexTest, MissingIndexSaysWhatToDo) {
  const Status status = SourceIndex::open(path(), source_).status();
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_TRUE(contains(status.message(), "overlord index"));
}

TEST_F(IndexTest, CancelEndsIt) {
  runtime::CancelToken cancel;
  cancel.cancel();
  EXPECT_EQ(build_index(storage_, nullptr, source_, path(), {}, {}, nullptr, cancel).code(),
            Code::kCancelled);
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(IndexTest, ProgressReachesItsTotals) {
  IndexProgress progress;
  IndexOptions options;
  options.lengths = true;
  ASSERT_TRUE(build_file(options, &progress).ok());
  EXPECT_EQ(progress.shards_done, 4u);
  EXPECT_EQ(progress.shards_total, 4u);
  EXPECT_EQ(progress.rows, 200u);
  EXPECT_EQ(progress.bytes_done, progress.bytes_total);
}

TEST_F(IndexTest, AChangedShardWhileIndexingIsRefused) {
  // The store answers with another version than the one that was looked at.
  class Shifty final : public runtime::Storage {
   public:
    explicit Shifty(runtime::MemoryStorage* base) : base_(base) {}
    void read(runtime::ReadRequest r, runtime::CancelToken c, runtime::ReadDone d) override {
      base_->read(std::move(r), std::move(c), std::move(d));
    }
    Result<runtime::Bytes> read_blocking(const runtime::ReadRequest& r) override {
      base_->put(r.uri, "changed");
      return base_->read_blocking(r);
    }
    Result<runtime::FileInfo> stat(const std::string& uri) override { return base_->stat(uri); }
    Result<std::vector<std::string>> list(const std::string& p) override { return base_->list(p); }
    Result<std::vector<runtime::ListedFile>> list_folder(const std::string& folder,
                                                         uint64_t most) override {
      return base_->list_folder(folder, most);
    }

   private:
    runtime::MemoryStorage* base_;
  };
  Shifty shifty(&storage_);
  EXPECT_EQ(build_index_bytes(shifty, nullptr, source_, {}, nullptr, {}).status().code(),
            Code::kSourceChanged);
}

// Damage anywhere must be found, and must never crash. Flips are repaired in the header hash and
// the section hashes too, so that the checks behind the hashes are reached.
class FuzzIndex : public IndexTest {};

TEST_F(FuzzIndex, EveryFlippedByteIsFound) {
  const auto good = build_index_bytes(storage_, nullptr, source_, {}, nullptr, {});
  size_t accepted = 0;
  for (size_t at = 0; at < good->size(); at += 3) {
    std::string bytes = *good;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x41);
    accepted += SourceIndex::from_bytes(bytes, source_).ok() ? 1 : 0;
  }
  EXPECT_LT(accepted, 7 * 64 / 3 + 1);  // only the padding between sections is free
  for (size_t size = 0; size < good->size(); size += 97) {
    EXPECT_FALSE(SourceIndex::from_bytes(good->substr(0, size), source_).ok());
  }
}

TEST_F(FuzzIndex, HostileButHashedFilesNeverCrash) {
  source_.limits.max_document_bytes = 150;  // some bad rows too
  IndexOptions options;
  options.block_rows = 10;
  const auto good = build_index_bytes(storage_, nullptr, source_, options, nullptr, {});
  ASSERT_TRUE(good.ok());
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = *good;
    const int flips = 1 + static_cast<int>(random() % 3);
    for (int i = 0; i < flips; ++i) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    repair_hashes(&bytes);
    const auto index = SourceIndex::from_bytes(bytes, source_);
    if (!index.ok()) continue;
    const auto reader = (*index)->reader();
    if (!reader.ok()) continue;
    const auto& manifest = (*index)->manifest();
    (*index)->bad_rows();
    for (uint32_t block = 0; block < manifest.blocks.size(); ++block) {
      const auto rows = read_block(storage_, **index, **reader, {block, {0}});
      static_cast<void>(rows.ok());
      const auto all = read_block(storage_, **index, **reader, {block, {}});
      static_cast<void>(all.ok());
    }
  }
}

// The same with media, metadata and several shards.
TEST(ForeignIndex, NoBytesBreakAPromise) {
  const IndexedWorld world;
  std::mt19937 random(8);
  for (int round = 0; round < 900; ++round) {
    const size_t which = static_cast<size_t>(round) % world.indexes.size();
    std::string bytes = static_cast<char>(which) + world.indexes[which];
    for (size_t flips = 1 + random() % 3; flips > 0; --flips) {
      bytes[1 + random() % (bytes.size() - 1)] = static_cast<char>(random());
    }
    takes_index(bytes);
  }
}

TEST_F(FuzzIndex, AnotherVersionIsNamed) {
  auto bytes = build_index_bytes(storage_, nullptr, source_, {}, nullptr, {});
  (*bytes)[8] = 9;
  const Status status = SourceIndex::from_bytes(*bytes, source_).status();
  EXPECT_EQ(status.code(), Code::kVersionMismatch);
  EXPECT_TRUE(contains(status.message(), "version 9"));
}

}  // namespace
}  // namespace overlord::columnar
