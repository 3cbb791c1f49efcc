#include "overlord/storage/object_storage.h"

#include <gtest/gtest.h>

#include <map>

namespace overlord::storage {
namespace {

// Objects in memory, which count what is asked of them.
class CountedStore final : public store::ObjectStore {
 public:
  struct Counts {
    int gets = 0, heads = 0, lists = 0;
  };
  explicit CountedStore(std::map<std::string, std::string>* objects, Counts* counts)
      : objects_(objects), counts_(counts) {}

  static std::string etag_of(const std::string& bytes) { return "etag-of-" + bytes.substr(0, 60); }

  void get(store::RangeRequest request, runtime::CancelToken, RangeDone done) override {
    ++counts_->gets;
    const std::string& bytes = objects_->at(request.object.key);
    last_etag = request.etag;
    if (!request.etag.empty() && request.etag != etag_of(bytes)) {
      return done(Status(Code::kSourceChanged, request.object.uri()));
    }
    done(store::Range{runtime::Bytes::copy_of(bytes.substr(request.offset, request.size_bytes)),
                      etag_of(bytes)});
  }
  void head(store::ObjectName object, runtime::CancelToken, InfoDone done) override {
    ++counts_->heads;
    const auto found = objects_->find(object.key);
    if (found == objects_->end()) return done(not_found(object.uri()));
    done(store::ObjectInfo{object.key, found->second.size(), etag_of(found->second)});
  }
  void list(store::ListRequest request, runtime::CancelToken, ListDone done) override {
    ++counts_->lists;
    std::vector<store::ObjectInfo> found;
    for (const auto& [key, bytes] : *objects_) {
      if (!key.starts_with(request.prefix)) continue;
      if (request.one_level && key.find('/', request.prefix.size()) != std::string::npos) continue;
      found.push_back({key, bytes.size(), etag_of(bytes)});
    }
    done(std::move(found));
  }

  void after(int64_t, runtime::Task task) override { task(); }

  std::string last_etag;

 private:
  std::map<std::string, std::string>* const objects_;
  Counts* const counts_;
};

class ObjectStorageTest : public ::testing::Test {
 protected:
  std::vector<std::string> list(const std::string& pattern) {
    auto found = storage_.list("s3://bucket/" + pattern);
    EXPECT_TRUE(found.ok()) << found.status().message();
    return found.ok() ? *found : std::vector<std::string>();
  }
  Result<runtime::Bytes> read(const std::string& key, const model::Fingerprint& expected) {
    return storage_.read_blocking({"s3://bucket/" + key, 1, 2, expected});
  }

  std::map<std::string, std::string> objects_ = {
      {"d/a.bin", "aaaa"},    {"d/b.bin", "bbbb"},
      {"d/c.bin", "cccc"},    {"d/d.bin", "dddd"},
      {"d/e.bin", "eeee"},    {"d/deep/f.bin", "ffff"},
      {"d/.hidden.bin", "h"}, {"d/folder/", ""},
      {"d/_SUCCESS", "done"}, {"long", std::string(100, 'x')}};
  CountedStore::Counts counts_;
  CountedStore* const store_ = new CountedStore(&objects_, &counts_);
  ObjectStorage storage_{std::unique_ptr<store::ObjectStore>(store_)};
};

TEST_F(ObjectStorageTest, PatternsMeanWhatTheyMeanOnADisk) {
  EXPECT_EQ(list("d/*.bin"), (std::vector<std::string>{"s3://bucket/d/a.bin", "s3://bucket/d/b.bin",
                                                       "s3://bucket/d/c.bin", "s3://bucket/d/d.bin",
                                                       "s3://bucket/d/e.bin"}));
  EXPECT_EQ(list("**/f.bin"), std::vector<std::string>{"s3://bucket/d/deep/f.bin"});
  EXPECT_EQ(list("*/deep/*.bin"), std::vector<std::string>{"s3://bucket/d/deep/f.bin"});
  EXPECT_EQ(list("d/?.bin").size(), 5u);
  EXPECT_EQ(list("d/a.bin"), std::vector<std::string>{"s3://bucket/d/a.bin"});
  EXPECT_EQ(storage_.list("s3://bucket/d/*.tar").status().code(), Code::kNotFound);
  const Status odd = storage_.list("s3://bucket/d/*").status();
  EXPECT_EQ(odd.code(), Code::kInvalidArgument);
  EXPECT_NE(odd.message().find("_SUCCESS"), std::string::npos) << odd.message();
}

TEST_F(ObjectStorageTest, BracesAreListedOnce) {
  EXPECT_EQ(list("d/{a..e}.bin").size(), 5u);
  EXPECT_EQ(counts_.heads, 2);  // from the third of a folder on it is listed
  EXPECT_EQ(counts_.lists, 1);
  EXPECT_EQ(list("d/**/{a,f}.bin").size(), 2u);
  EXPECT_EQ(counts_.lists, 2);
  const Status missing = storage_.list("s3://bucket/d/{a,n}.bin").status();
  EXPECT_EQ(missing.code(), Code::kNotFound);
  EXPECT_NE(missing.message().find("d/n.bin"), std::string::npos) << missing.message();
}

TEST_F(ObjectStorageTest, AFolderIsAllThatLiesBelowIt) {
  const auto all = storage_.list_folder("s3://bucket/d/", 100);
  ASSERT_TRUE(all.ok()) << all.status().message();
  EXPECT_EQ(all->size(), 8u);  // hidden ones too; what stands for a folder is none
  EXPECT_EQ(all->front().uri, "s3://bucket/d/.hidden.bin");
  EXPECT_EQ(all->front().size_bytes, 1u);
  EXPECT_EQ(storage_.list_folder("s3://bucket/", 100)->size(), 9u);
  EXPECT_EQ(storage_.list_folder("s3://bucket/none/", 100).status().code(), Code::kNotFound);
  EXPECT_TRUE(storage_.stat("s3://bucket/d/a.bin").ok());
  EXPECT_EQ(counts_.heads, 0);
}

TEST_F(ObjectStorageTest, WhatWasListedIsNotAskedForAgain) {
  for (const std::string& uri : list("d/*.bin")) ASSERT_TRUE(storage_.stat(uri).ok());
  EXPECT_EQ(counts_.heads, 0);
  EXPECT_EQ(counts_.lists, 1);
  // A second look is of its own time.
  objects_["d/a.bin"] = "new";
  EXPECT_EQ(storage_.stat("s3://bucket/d/a.bin")->fingerprint.size_bytes, 3u);
  EXPECT_EQ(counts_.heads, 1);
}

TEST_F(ObjectStorageTest, ManyObjectsOfAFolderAreListed) {
  for (const char* key : {"a", "b", "c", "d", "e"}) {
    ASSERT_TRUE(storage_.stat("s3://bucket/d/" + std::string(key) + ".bin").ok());
  }
  EXPECT_EQ(counts_.heads, 2);
  EXPECT_EQ(counts_.lists, 1);
  EXPECT_EQ(storage_.stat("s3://bucket/d/none").status().code(), Code::kNotFound);
}

TEST_F(ObjectStorageTest, ReadsAreOfTheVersionThatWasSeen) {
  const model::Fingerprint expected = storage_.stat("s3://bucket/d/a.bin")->fingerprint;
  EXPECT_EQ(expected.etag_text(), "etag-of-aaaa");
  const auto bytes = read("d/a.bin", expected);
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  EXPECT_EQ(std::string(bytes->data, bytes->size), "aa");
  EXPECT_EQ(store_->last_etag, "etag-of-aaaa");
  objects_["d/a.bin"] = "bbbb";
  EXPECT_EQ(read("d/a.bin", expected).status().code(), Code::kSourceChanged);
  EXPECT_TRUE(read("d/a.bin", {}).ok());
}

TEST_F(ObjectStorageTest, AnEtagThatIsTooLongIsComparedByItsHash) {
  const model::Fingerprint expected = storage_.stat("s3://bucket/long")->fingerprint;
  EXPECT_EQ(expected.etag_text(), "");
  EXPECT_TRUE(read("long", expected).ok());
  objects_["long"][0] = 'y';
  EXPECT_EQ(read("long", expected).status().code(), Code::kSourceChanged);
}

TEST_F(ObjectStorageTest, WhatLiesBehindTheEndIsNotAskedFor) {
  const model::Fingerprint expected = storage_.stat("s3://bucket/d/a.bin")->fingerprint;
  EXPECT_EQ(storage_.read_blocking({"s3://bucket/d/a.bin", 3, 2, expected}).status().code(),
            Code::kBadData);
  EXPECT_EQ(counts_.gets, 0);
}

}  // namespace
}  // namespace overlord::storage
