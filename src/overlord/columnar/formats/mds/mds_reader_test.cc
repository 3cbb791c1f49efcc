#include "overlord/columnar/formats/mds/mds_reader.h"

#include <gtest/gtest.h>

#include "overlord/columnar/foreign_rows_test.h"
#include "overlord/columnar/formats/mds/mds_files.h"
#include "overlord/columnar/formats/mds/mds_writer_test.h"
#include "overlord/columnar/reading_test.h"

namespace overlord::columnar {
namespace {

constexpr const char* kShard = "mem:/a.mds";

model::Source mds_text() {
  model::Source source;
  source.name = "m";
  source.format = model::Format::kMds;
  source.files = {kShard};
  source.text_column = "text";
  return source;
}

model::Source mds_tokens() {
  model::Source source = mds_text();
  source.text_column.clear();
  source.token_column = "tokens";
  return source;
}

uint64_t bytes_of_ranges(const BlockReader& reader) {
  uint64_t bytes = 0;
  const auto ranges = reader.ranges({0, {}, nullptr});
  for (const RangeRequest& range : *ranges) bytes += range.size_bytes;
  return bytes;
}

TEST(MdsReader, RowsAreTheirColumns) {
  runtime::MemoryStorage storage;
  storage.put(kShard, some_mds_shard());
  const auto text = build(storage, mds_text());
  ASSERT_TRUE(text.ok()) << text.status().message();
  EXPECT_EQ(read_all(storage, **text)->texts, std::vector<std::string>(3, "words of text"));
  const auto tokens = build(storage, mds_tokens());
  ASSERT_TRUE(tokens.ok()) << tokens.status().message();
  EXPECT_EQ(read_all(storage, **tokens)->tokens, (std::vector<std::vector<int64_t>>(3, {7, 8})));
}

TEST(MdsReader, ACountLeavesMetadataAsTheyAre) {
  runtime::MemoryStorage storage;
  storage.put(kShard, some_mds_shard());
  model::Source source = mds_tokens();
  source.metadata_columns = {"n"};
  for (const bool lengths : {false, true}) {
    IndexOptions options;
    options.lengths = lengths;
    for (const bool text : {false, true}) {
      source.token_column = text ? "" : "tokens";
      source.text_column = text ? "text" : "";
      if (text && lengths) continue;  // needs an encoder
      const auto index = build(storage, source, options);
      ASSERT_TRUE(index.ok()) << index.status().message();
      const auto values = (*index)->manifest().columns[0];
      EXPECT_EQ(std::vector<uint32_t>(values.begin(), values.end()), (std::vector<uint32_t>(3, 5)));
    }
  }
}

TEST(MdsReader, TextIsReadWithoutMedia) {
  const std::string large(100 << 10, 'x');
  const std::vector<std::string> row = {large, "words"};
  runtime::MemoryStorage storage;
  storage.put(kShard, mds_shard({{"image", "jpeg"}, {"text", "str"}}, {row, row}));
  model::Source source = mds_text();
  const auto whole = build(storage, source);
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  EXPECT_GT(bytes_of_ranges(**(*whole)->reader()), 2 * large.size());
  source.media = {{"image", {"image"}}};
  const auto apart = build(storage, source);
  ASSERT_TRUE(apart.ok()) << apart.status().message();
  EXPECT_LT(bytes_of_ranges(**(*apart)->reader()), 100u);
  const auto media =
      read_media(storage, (*apart)->manifest(), **(*apart)->reader(), {0, {1}, nullptr});
  ASSERT_TRUE(media.ok()) << media.status().message();
  EXPECT_EQ(texts_of((*media)[0]), std::vector<std::string>{large});
}

TEST(MdsReader, AnyByteMayBeWrong) {
  const std::string good = some_mds_shard();
  for (size_t at = 0; at < good.size(); ++at) {
    for (const int value : {0, 1, 0x22, 0x7f, 0xff}) {
      std::string bytes = static_cast<char>(kMds) + good;
      bytes[at + 1] = static_cast<char>(value);
      takes_rows(bytes);
    }
  }
  for (size_t size = 0; size <= good.size(); ++size) {
    takes_rows(static_cast<char>(kMds) + good.substr(0, size));
  }
}

TEST(MdsReader, ABlockIsARunOfSamples) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> texts;
  for (int i = 0; i < 500; ++i) {
    texts.push_back("row " + std::to_string(i) + std::string(static_cast<size_t>(i % 70), '.'));
    rows.push_back({texts.back()});
  }
  runtime::MemoryStorage storage;
  storage.put(kShard, mds_shard({{"text", "str"}}, rows));
  IndexOptions options;
  options.block_rows = 64;
  options.block_bytes = 2000;
  const auto index = build(storage, mds_text(), options);
  ASSERT_TRUE(index.ok()) << index.status().message();
  EXPECT_GT((*index)->manifest().blocks.size(), 8u);
  EXPECT_EQ(read_all(storage, **index)->texts, texts);
}

TEST(MdsFolder, ListsItsShards) {
  runtime::MemoryStorage storage;
  const auto entry = [](const std::string& raw, const std::string& zip) {
    return "{\"format\": \"mds\", \"compression\": \"zstd:3\", \"raw_data\": {\"basename\": \"" +
           raw + "\"}, \"zip_data\": " + zip + "}";
  };
  const std::string zipped = "{\"basename\": \"s/b.mds.zstd\"}";
  storage.put("mem:/f/index.json", "{\"version\": 2, \"shards\": [" + entry("a.mds", "null") +
                                       ", " + entry("s/b.mds", zipped) + "]}");
  using Uris = std::vector<std::string>;
  // Nothing is there but the list: shards that are missing are named when they are looked for.
  EXPECT_EQ(*expand_mds_folder(storage, "mem:/f/"), (Uris{"mem:/f/a.mds", "mem:/f/s/b.mds"}));
  storage.put("mem:/f/s/b.mds.zstd", "x");
  EXPECT_EQ(*expand_mds_folder(storage, "mem:/f/index.json"),
            (Uris{"mem:/f/a.mds", "mem:/f/s/b.mds.zstd"}));
  EXPECT_EQ(*expand_mds_folder(storage, "mem:/f/a.mds"), Uris{"mem:/f/a.mds"});
  EXPECT_EQ(expand_mds_folder(storage, "mem:/g/").status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace overlord::columnar
