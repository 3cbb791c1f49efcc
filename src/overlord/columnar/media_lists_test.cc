// Rows with any number of blobs in a field: lists in Parquet, numbered members in tar files.
#include <arrow/api.h>
#include <arrow/io/memory.h>
#include <gtest/gtest.h>
#include <parquet/arrow/writer.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "overlord/base/bytes.h"
#include "overlord/base/rng.h"
#include "overlord/columnar/formats/tar/foreign_tar_test.h"
#include "overlord/columnar/formats/tar/tar_writer_test.h"
#include "overlord/columnar/index/index_file.h"
#include "overlord/columnar/media_columns.h"
#include "overlord/columnar/reading_test.h"

namespace overlord::columnar {
namespace {

using Texts = std::vector<std::string>;
using List = std::optional<std::vector<std::optional<std::string>>>;  // null lists, null entries
using Lists = std::vector<List>;

enum class Entry { kBytes, kPath, kBoth };

std::shared_ptr<arrow::DataType> type_of(Entry entry) {
  if (entry == Entry::kBytes) return arrow::binary();
  if (entry == Entry::kPath) return arrow::utf8();
  return arrow::struct_(
      {arrow::field("bytes", arrow::binary()), arrow::field("path", arrow::utf8())});
}

// In a struct a value that begins with '@' is a path, and "-" is one without bytes and path.
void append(arrow::ArrayBuilder* builder, Entry entry, const std::optional<std::string>& value) {
  if (!value) {
    EXPECT_TRUE(builder->AppendNull().ok());
    return;
  }
  if (entry != Entry::kBoth) {
    EXPECT_TRUE(static_cast<arrow::BinaryBuilder*>(builder)->Append(*value).ok());
    return;
  }
  auto* both = static_cast<arrow::StructBuilder*>(builder);
  ASSERT_TRUE(both->Append().ok());
  auto* bytes = static_cast<arrow::BinaryBuilder*>(both->field_builder(0));
  auto* path = static_cast<arrow::BinaryBuilder*>(both->field_builder(1));
  const bool is_path = value->starts_with('@');
  const bool neither = *value == "-";
  ASSERT_TRUE((is_path || neither ? bytes->AppendNull() : bytes->Append(*value)).ok());
  ASSERT_TRUE((is_path ? path->Append(value->substr(1)) : path->AppendNull()).ok());
}

std::string parquet_lists(const Lists& lists, Entry entry, int64_t group_rows = 3) {
  auto builder = *arrow::MakeBuilder(arrow::list(type_of(entry)));
  auto* list_builder = static_cast<arrow::ListBuilder*>(builder.get());
  arrow::StringBuilder texts;
  for (size_t row = 0; row < lists.size(); ++row) {
    EXPECT_TRUE(texts.Append("text " + std::to_string(row)).ok());
    EXPECT_TRUE((lists[row] ? list_builder->Append() : list_builder->AppendNull()).ok());
    if (!lists[row]) continue;
    for (const auto& value : *lists[row]) append(list_builder->value_builder(), entry, value);
  }
  const auto images = *builder->Finish();
  const auto table = arrow::Table::Make(
      arrow::schema({arrow::field("text", arrow::utf8()), arrow::field("images", images->type())}),
      {*texts.Finish(), images});
  auto sink = *arrow::io::BufferOutputStream::Create();
  EXPECT_TRUE(
      parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), sink, group_rows).ok());
  return (*sink->Finish())->ToString();
}

model::Source list_source(std::vector<std::string> files, bool many = true) {
  model::Source source;
  source.name = "lists";
  source.files = std::move(files);
  source.text_column = "text";
  source.media = {{"image", {"images"}, std::nullopt, many}};
  return source;
}

std::vector<Texts> all_lists(runtime::Storage& storage, const SourceIndex& index) {
  std::vector<Texts> out;
  const auto reader = index.reader();
  for (uint32_t block = 0; block < index.manifest().blocks.size(); ++block) {
    const auto lists = read_media(storage, index.manifest(), **reader, {block, {}, nullptr});
    EXPECT_TRUE(lists.ok()) << lists.status().message();
    if (!lists.ok()) continue;
    for (const auto& list : *lists) out.push_back(texts_of(list));
  }
  return out;
}

// The sizes that the index keeps, by row.
std::vector<std::vector<size_t>> sizes_by_row(const SourceIndex& index) {
  std::vector<std::vector<size_t>> out;
  uint64_t begin = 0;
  for (const uint64_t end : index.media_ends(0)) {
    std::vector<size_t>& sizes = out.emplace_back();
    for (; begin < end; ++begin) sizes.push_back(index.media_sizes(0)[begin]);
  }
  return out;
}

std::vector<std::vector<size_t>> sizes_of(const std::vector<Texts>& lists) {
  std::vector<std::vector<size_t>> out;
  for (const Texts& list : lists) {
    std::vector<size_t>& sizes = out.emplace_back();
    for (const std::string& blob : list) sizes.push_back(blob.size());
  }
  return out;
}

TEST(MediaLists, NullListsAndNullEntriesAreLeftOutAndOrderIsKept) {
  // Said in full where braces alone could mean either: a list without entries, an entry or list
  // that is null.
  const List none = List::value_type();
  const List nulls = List::value_type(2);
  const Lists bytes = {{{"a0", "a1"}}, {}, {{{}, "c1", {}, "c3"}}, none, nulls, {{"", "f"}}};
  const std::vector<Texts> expected = {{"a0", "a1"}, {}, {"c1", "c3"}, {}, {}, {"", "f"}};
  runtime::MemoryStorage storage;
  storage.put("mem:/d/a.parquet", parquet_lists(bytes, Entry::kBytes));
  auto index = build(storage, list_source({"mem:/d/a.parquet"}));
  ASSERT_TRUE(index.ok()) << index.status().message();
  EXPECT_TRUE((*index)->bad_rows().empty());
  EXPECT_EQ(all_lists(storage, **index), expected);
  EXPECT_EQ(sizes_by_row(**index), sizes_of(expected));

  const Lists both = {{{"x", "@in/b.png", "-", {}, "z"}}, {}, {{"@in/b.png"}}};
  storage.put("mem:/d/b.parquet", parquet_lists(both, Entry::kBoth));
  storage.put("mem:/d/in/b.png", "beside");
  index = build(storage, list_source({"mem:/d/b.parquet"}));
  ASSERT_TRUE(index.ok()) << index.status().message();
  EXPECT_EQ(all_lists(storage, **index),
            (std::vector<Texts>{{"x", "beside", "z"}, {}, {"beside"}}));
  const auto reader = (*index)->reader();
  const auto one = read_media(storage, (*index)->manifest(), **reader, {0, {2}, nullptr});
  ASSERT_TRUE(one.ok() && one->size() == 1);
  EXPECT_EQ(texts_of((*one)[0]), Texts{"beside"});

  const Lists paths = {{{"in/b.png", {}, "in/b.png"}}, {{"gone.png"}}, {}};
  storage.put("mem:/d/c.parquet", parquet_lists(paths, Entry::kPath));
  index = build(storage, list_source({"mem:/d/c.parquet"}));
  ASSERT_TRUE(index.ok()) << index.status().message();
  EXPECT_EQ(all_lists(storage, **index), (std::vector<Texts>{{"beside", "beside"}, {}, {}}));
  ASSERT_EQ((*index)->bad_rows().size(), 1u);
  EXPECT_TRUE(contains((*index)->bad_rows()[0].second, "no file 'gone.png'"));
}

TEST(MediaLists, ListsAndSingleBlobsAreNotMixedUp) {
  runtime::MemoryStorage storage;
  storage.put("mem:/a.parquet", parquet_lists({{{"a"}}}, Entry::kBytes));
  const auto single = build(storage, list_source({"mem:/a.parquet"}, false));
  EXPECT_TRUE(contains(single.status().message(), "for lists write `many: true`"))
      << single.status().message();
  model::Source source = list_source({"mem:/a.parquet"});
  source.media[0].from = {"text"};
  const auto plain = build(storage, source);
  EXPECT_TRUE(contains(plain.status().message(), "must be a list")) << plain.status().message();
  // An index made for one is not taken for the other.
  const auto bytes =
      build_index_bytes(storage, nullptr, list_source({"mem:/a.parquet"}), {}, nullptr, {});
  ASSERT_TRUE(bytes.ok());
  const auto other = SourceIndex::from_bytes(*bytes, list_source({"mem:/a.parquet"}, false));
  EXPECT_TRUE(contains(other.status().message(), "(many)")) << other.status().message();
}

TEST(MediaLists, TooManyBlobsMakeABadRowAndCostNoOthers) {
  std::vector<std::optional<std::string>> most(model::kMaxRowBlobs, "x"), over = most;
  over.emplace_back();  // entries count, null or not
  runtime::MemoryStorage storage;
  storage.put("mem:/a.parquet", parquet_lists({{{"a"}}, over, most, {{"b"}}}, Entry::kBytes));
  TarWriter tar;
  tar.add("a.txt", "few");
  for (uint32_t i = 0; i <= model::kMaxRowBlobs; ++i)
    tar.add("a." + std::to_string(i) + ".jpg", "x");
  tar.add("b.txt", "good");
  tar.add("b.jpg", "b");
  storage.put("mem:/a.tar", tar.finished());
  const auto lists = build(storage, list_source({"mem:/a.parquet"}));
  ASSERT_TRUE(lists.ok()) << lists.status().message();
  ASSERT_EQ((*lists)->bad_rows().size(), 1u);
  EXPECT_EQ((*lists)->bad_rows()[0].first, 1u);
  EXPECT_TRUE(contains((*lists)->bad_rows()[0].second, "4097 blobs, a row may have 4096"));
  const auto read = all_lists(storage, **lists);
  EXPECT_EQ(read[0], Texts{"a"});
  EXPECT_TRUE(read[1].empty());
  EXPECT_EQ(read[2].size(), size_t{model::kMaxRowBlobs});
  EXPECT_EQ(read[3], Texts{"b"});

  const auto samples = build(storage, tar_source("mem:/a.tar", true));
  ASSERT_TRUE(samples.ok()) << samples.status().message();
  ASSERT_EQ((*samples)->bad_rows().size(), 1u);
  EXPECT_TRUE(contains((*samples)->bad_rows()[0].second, "4097 blobs, a row may have 4096"));
  EXPECT_EQ(all_lists(storage, **samples), (std::vector<Texts>{{}, {"b"}}));
}

TEST(MediaLists, NumberedMembersOfASample) {
  TarWriter tar;
  tar.add("a.txt", "sorted by number");
  for (const char* name : {"10.jpg", "1.PNG", "0.jpg", "2.gif", "x.jpg", "002.png"}) {
    tar.add(std::string("a.") + name, name);
  }
  tar.add("b.jpg", "alone");
  tar.add("b.txt", "plain");
  tar.add("c.txt", "none");
  tar.add("d.jpg", "first");
  tar.add("d.1.png", "second");
  tar.add("d.txt", "plain is number 0");
  tar.add("e.3.jpg", "one");
  tar.add("e.03.png", "two");
  tar.add("e.txt", "twice the number");
  tar.add("f.9999999999.jpg", "more digits than a number has");
  tar.add("f.txt", "none either");
  runtime::MemoryStorage storage;
  storage.put("mem:/a.tar", tar.finished());
  const auto index = build(storage, tar_source("mem:/a.tar", true));
  ASSERT_TRUE(index.ok()) << index.status().message();
  EXPECT_EQ(
      all_lists(storage, **index),
      (std::vector<Texts>{
          {"0.jpg", "1.PNG", "002.png", "10.jpg"}, {"alone"}, {}, {"first", "second"}, {}, {}}));
  ASSERT_EQ((*index)->bad_rows().size(), 1u);
  EXPECT_TRUE(contains((*index)->bad_rows()[0].second, "two members number 3 for media 'image'"))
      << (*index)->bad_rows()[0].second;
}

Lists random_lists(uint64_t seed, size_t rows) {
  uint64_t drawn = 0;
  const auto below = [&](uint64_t n) { return uniform_below(seed, ++drawn, 0, n); };
  Lists lists;
  for (size_t row = 0; row < rows; ++row) {
    List& list = lists.emplace_back();
    if (below(5) == 0) continue;
    list.emplace();
    for (uint64_t i = below(6); i > 0; --i) {
      auto& value = list->emplace_back();
      if (below(4) > 0) value = std::string(below(20), static_cast<char>('a' + below(9)));
    }
  }
  return lists;
}

// What is there of a list.
std::vector<Texts> present(const Lists& lists) {
  std::vector<Texts> out;
  for (const List& list : lists) {
    Texts& texts = out.emplace_back();
    if (!list) continue;
    for (const auto& value : *list) {
      if (value) texts.push_back(*value);
    }
  }
  return out;
}

TEST(MediaLists, WhatIsTakenOverFromAnOldIndexIsWhatIsIndexed) {
  const std::string path = ::testing::TempDir() + "/media_lists.idx";
  std::filesystem::remove(path);
  for (uint64_t seed = 0; seed < 8; ++seed) {
    runtime::MemoryStorage storage;
    const std::vector<Lists> shards = {random_lists(seed, 7), random_lists(seed + 100, 4),
                                       random_lists(seed + 200, 9)};
    std::vector<std::string> files;
    std::vector<Texts> expected;
    for (size_t i = 0; i < shards.size(); ++i) {
      files.push_back("mem:/" + std::to_string(seed) + "-" + std::to_string(i) + ".parquet");
      storage.put(files.back(), parquet_lists(shards[i], Entry::kBytes));
      for (Texts& texts : present(shards[i])) expected.push_back(std::move(texts));
    }
    const std::vector<std::string> some = {files[1]};
    ASSERT_TRUE(build_index(storage, nullptr, list_source(some), path, {}, {}, nullptr, {}).ok());
    ASSERT_TRUE(build_index(storage, nullptr, list_source(files), path, {}, {}, nullptr, {}).ok());
    const auto fresh = build_index_bytes(storage, nullptr, list_source(files), {}, nullptr, {});
    std::ifstream kept(path, std::ios::binary);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(kept), {}), *fresh) << seed;
    const auto index = SourceIndex::from_bytes(*fresh, list_source(files));
    ASSERT_TRUE(index.ok()) << index.status().message();
    EXPECT_EQ(all_lists(storage, **index), expected) << seed;
    EXPECT_EQ(sizes_by_row(**index), sizes_of(expected)) << seed;
  }
}

// Rows of an index whose counts lie: refused before anything of their size is made.
TEST(MediaLists, CountsThatLieAreRefused) {
  const std::vector<model::MediaField> many = {{"image", {"images"}, std::nullopt, true}};
  const std::vector<model::MediaField> one = {{"image", {"images"}}};
  const auto reads = [](const std::vector<model::MediaField>& media, size_t rows,
                        const std::function<void(ByteWriter*)>& write) {
    ByteWriter out;
    write(&out);
    ByteReader reader(out.bytes());
    MediaPlaces places;
    model::ShardEntry shard;
    shard.uri = "mem:/a.parquet";
    return read_media_rows(&reader, shard, rows, media, &places);
  };
  const auto blob = [](ByteWriter* out) {
    out->u8(static_cast<uint8_t>(MediaPlace::Kind::kDecoded));
    out->varint(3);
  };
  const auto two = [&](ByteWriter* out) {
    out->varint(2);
    blob(out);
    blob(out);
  };
  EXPECT_TRUE(reads(many, 1, two));
  EXPECT_FALSE(reads(one, 1, two));
  EXPECT_FALSE(reads(many, 2, two));
  EXPECT_FALSE(reads(many, 1, [](ByteWriter* out) { out->varint(uint64_t{1} << 40); }));
  EXPECT_FALSE(reads(many, uint64_t{1} << 40, two));
  EXPECT_FALSE(reads(many, 1, [](ByteWriter* out) {
    out->varint(1);
    out->u8(0);  // not a place that is written
  }));
}

}  // namespace
}  // namespace overlord::columnar
