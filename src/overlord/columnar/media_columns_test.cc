#include "overlord/columnar/media_columns.h"

#include <arrow/api.h>
#include <arrow/io/memory.h>
#include <gtest/gtest.h>
#include <parquet/arrow/writer.h>

#include <optional>

#include "overlord/columnar/media_files.h"
#include "overlord/columnar/reading_test.h"

namespace overlord::columnar {
namespace {

using Cells = std::vector<std::optional<std::string>>;

std::shared_ptr<arrow::Array> cells(const Cells& values,
                                    const std::shared_ptr<arrow::DataType>& type) {
  auto builder = *arrow::MakeBuilder(type);
  for (const auto& value : values) {
    const arrow::Status status =
        value ? static_cast<arrow::BinaryBuilder&>(*builder).Append(*value) : builder->AppendNull();
    EXPECT_TRUE(status.ok());
  }
  return *builder->Finish();
}

// Text, the Hub's struct{bytes, path}, plain bytes and paths; two rows in a row group.
std::string parquet_file(const Cells& bytes, const Cells& paths, const Cells& plain,
                         const Cells& files) {
  Cells texts;
  for (size_t i = 0; i < bytes.size(); ++i) texts.push_back("text " + std::to_string(i));
  const auto both =
      *arrow::StructArray::Make({cells(bytes, arrow::binary()), cells(paths, arrow::utf8())},
                                std::vector<std::string>{"bytes", "path"});
  const auto table = arrow::Table::Make(
      arrow::schema({arrow::field("text", arrow::utf8()), arrow::field("image", both->type()),
                     arrow::field("raw", arrow::binary()), arrow::field("file", arrow::utf8())}),
      {cells(texts, arrow::utf8()), both, cells(plain, arrow::binary()),
       cells(files, arrow::utf8())});
  auto sink = *arrow::io::BufferOutputStream::Create();
  EXPECT_TRUE(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), sink, 2).ok());
  return (*sink->Finish())->ToString();
}

model::Source parquet_source() {
  model::Source source;
  source.name = "hub";
  source.files = {"mem:/d/a.parquet"};
  source.text_column = "text";
  source.media = {{"clip", {"file"}}, {"image", {"image"}}, {"raw", {"raw"}}};
  return source;
}

std::vector<std::optional<std::string>> all_blobs(runtime::Storage& storage,
                                                  const SourceIndex& index) {
  std::vector<std::optional<std::string>> out;
  const auto reader = index.reader();
  for (uint32_t block = 0; block < index.manifest().blocks.size(); ++block) {
    const auto blobs = read_media(storage, index.manifest(), **reader, {block, {}, nullptr});
    EXPECT_TRUE(blobs.ok()) << blobs.status().message();
    if (!blobs.ok()) continue;
    for (const auto& list : *blobs) {
      EXPECT_LE(list.size(), 1u);
      out.push_back(list.empty() ? std::nullopt : std::optional(texts_of(list)[0]));
    }
  }
  return out;
}

TEST(MediaColumns, BytesStructsAndFilesOfParquet) {
  runtime::MemoryStorage storage;
  storage.put("mem:/d/a.parquet",
              parquet_file({"img0", {}, {}, "img3"}, {"x.png", "in/b.png", {}, {}},
                           {"raw0", {}, "", "raw3"}, {"c.flac", {}, "c.flac", {}}));
  storage.put("mem:/d/in/b.png", "img1");
  storage.put("mem:/d/c.flac", "sound");
  const auto index = build(storage, parquet_source());
  ASSERT_TRUE(index.ok()) << index.status().message();
  EXPECT_TRUE((*index)->bad_rows().empty());
  EXPECT_EQ(all_blobs(storage, **index),
            (Cells{"sound", "img0", "raw0", {}, "img1", {}, "sound", {}, "", {}, "img3", "raw3"}));
  EXPECT_EQ((*index)->media_sizes(0)[0], 5u);
  EXPECT_EQ((*index)->media_ends(1)[2], (*index)->media_ends(1)[1]);
  EXPECT_EQ((*index)->media_sizes(2)[1], 0u);
  const auto rows = read_all(storage, **index);
  ASSERT_TRUE(rows.ok()) << rows.status().message();
  EXPECT_EQ(rows->texts[3], "text 3");
  // One row alone, and a file that changed since.
  const auto reader = (*index)->reader();
  const auto one = read_media(storage, (*index)->manifest(), **reader, {1, {1}, nullptr});
  ASSERT_TRUE(one.ok() && one->size() == 3);
  EXPECT_EQ(texts_of((*one)[1]), std::vector<std::string>{"img3"});
  storage.put("mem:/d/c.flac", "other sound");
  EXPECT_EQ(read_media(storage, (*index)->manifest(), **reader, {0, {}, nullptr}).status().code(),
            Code::kSourceChanged);
}

TEST(MediaColumns, PathsOutsideOfTheShardsDirectoryAreBadRows) {
  runtime::MemoryStorage storage;
  storage.put("mem:/secret", "secret");
  storage.put("mem:/d/a.parquet",
              parquet_file({{}, {}, {}, "fine"}, {"../secret", "/secret", {}, {}}, {{}, {}, {}, {}},
                           {{}, {}, "gone.flac", {}}));
  const auto index = build(storage, parquet_source());
  ASSERT_TRUE(index.ok()) << index.status().message();
  const auto bad = (*index)->bad_rows();
  ASSERT_EQ(bad.size(), 3u);
  EXPECT_TRUE(contains(bad[0].second, "leads out of it")) << bad[0].second;
  EXPECT_TRUE(contains(bad[1].second, "is absolute")) << bad[1].second;
  EXPECT_TRUE(contains(bad[2].second, "no file 'gone.flac' beside the shard")) << bad[2].second;
  EXPECT_EQ(all_blobs(storage, **index)[10], "fine");
}

TEST(MediaColumns, OnlyNamesBelowTheShard) {
  for (const char* path : {"", "/a", "..", "a/../b", "a//b", "./a", "a/", "s3://b/a", "a\\b"}) {
    EXPECT_FALSE(beside_shard("/data/x.parquet", path).ok()) << path;
  }
  EXPECT_EQ(*beside_shard("/data/x.parquet", "a/..b.png"), "/data/a/..b.png");
}

}  // namespace
}  // namespace overlord::columnar
