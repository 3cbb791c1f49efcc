#include "overlord/storage/open_storage.h"

#include <gtest/gtest.h>

#include <vector>

#include "overlord/storage/temporary_directory_test.h"

namespace overlord::storage {
namespace {

Result<std::unique_ptr<runtime::Storage>> open(const std::vector<std::string>& uris) {
  return open_storage(uris, {runtime::BufferPool::make(0), 1, 4});
}

TEST(OpenStorage, PathsAndFileUrisAreLocal) {
  const TemporaryDirectory directory;
  const std::string path = directory.path("a.bin");
  directory.write("a.bin", "bytes");
  const auto storage = open({path, "file://" + path});
  ASSERT_TRUE(storage.ok()) << storage.status().message();
  for (const std::string& uri : {path, "file://" + path}) {
    const auto read = (*storage)->read_blocking({uri, 0, 5, (*storage)->stat(uri)->fingerprint});
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(std::string(read->data, read->size), "bytes");
  }
}

TEST(OpenStorage, ASchemeThatNothingServesIsNamed) {
  for (const std::string scheme : {"s4", "gs", "hdfs"}) {
    const Status refused = open({"/a.bin", scheme + "://bucket/b.bin"}).status();
    EXPECT_EQ(refused.code(), Code::kInvalidArgument);
    EXPECT_NE(refused.message().find("no storage serves " + scheme + "://"), std::string::npos)
        << refused.message();
    EXPECT_NE(refused.message().find("s3://"), std::string::npos) << refused.message();
    EXPECT_NE(refused.message().find("file://"), std::string::npos) << refused.message();
  }
}

}  // namespace
}  // namespace overlord::storage
