// Metadata columns from files into the index: values, what is bad, what is refused.
#include <arrow/api.h>
#include <arrow/io/memory.h>
#include <gtest/gtest.h>
#include <parquet/arrow/writer.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "overlord/columnar/index/index_file.h"
#include "overlord/columnar/reading_test.h"

namespace overlord::columnar {
namespace {

using Values = std::vector<uint32_t>;

// One token per byte, answered at once.
class ByteCounter final : public runtime::TextEncoder {
 public:
  void encode(runtime::TextRows rows, runtime::CancelToken, runtime::EncodeDone done) override {
    runtime::EncodedRows encoded;
    for (size_t i = 0; i < rows.rows(); ++i) {
      for (const char c : rows.row(i)) encoded.tokens.push_back(c);
      encoded.ends.push_back(encoded.tokens.size());
    }
    done(std::move(encoded));
  }
};

// A Parquet file of {"text": ..., columns...} in row groups of `group_rows`.
std::string parquet_of(const std::vector<std::string>& texts,
                       std::vector<std::pair<std::string, std::shared_ptr<arrow::Array>>> columns,
                       int64_t group_rows = 1000) {
  arrow::StringBuilder builder;
  for (const std::string& text : texts) EXPECT_TRUE(builder.Append(text).ok());
  columns.emplace_back("text", *builder.Finish());
  std::vector<std::shared_ptr<arrow::Field>> fields;
  std::vector<std::shared_ptr<arrow::Array>> arrays;
  for (const auto& [name, array] : columns) {
    fields.push_back(arrow::field(name, array->type()));
    arrays.push_back(array);
  }
  auto table = arrow::Table::Make(arrow::schema(fields), arrays);
  auto sink = *arrow::io::BufferOutputStream::Create();
  EXPECT_TRUE(
      parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), sink, group_rows,
                                 parquet::default_writer_properties(),
                                 parquet::ArrowWriterProperties::Builder().store_schema()->build())
          .ok());
  return (*sink->Finish())->ToString();
}

template <typename Builder, typename Value>
std::shared_ptr<arrow::Array> array_of(const std::vector<std::optional<Value>>& values) {
  Builder builder;
  for (const auto& value : values) {
    EXPECT_TRUE((value ? builder.Append(*value) : builder.AppendNull()).ok());
  }
  return *builder.Finish();
}

std::shared_ptr<arrow::Array> integers(const std::vector<std::optional<int64_t>>& values) {
  return array_of<arrow::Int64Builder>(values);
}

struct Files {
  runtime::MemoryStorage storage;
  model::Source source;

  explicit Files(model::Format format, std::vector<std::string> columns) {
    source.name = "web";
    source.format = format;
    source.text_column = "text";
    source.tokenizer.kind = model::TokenizerKind::kBytes;
    source.tokenizer.digest = "bytes";
    source.vocabulary = 256;
    source.metadata_columns = std::move(columns);
  }
  void put(const std::string& name, const std::string& bytes) {
    storage.put("mem:/" + name, bytes);
    source.files.push_back("mem:/" + name);
  }
  Result<std::shared_ptr<const SourceIndex>> index(bool lengths = false) {
    IndexOptions options;
    options.lengths = lengths;
    return build(storage, source, options, &encoder_);
  }

 private:
  ByteCounter encoder_;
};

Values column_of(const SourceIndex& index, size_t column) {
  const auto values = index.manifest().columns[column];
  return {values.begin(), values.end()};
}

TEST(MetadataColumns, ParquetIntegersAndBooleansOfEveryKind) {
  Files files(model::Format::kParquet, {"big", "flag", "patches", "small"});
  files.put(
      "a.parquet",
      parquet_of({"a", "bb", "ccc", "dddd", "eeeee"},
                 {{"patches", integers({5, {}, 7, 0, 4294967295})},
                  {"flag", array_of<arrow::BooleanBuilder, bool>({true, {}, false, true, {}})},
                  {"other", integers({-1, -1, -1, -1, -1})},
                  {"small", array_of<arrow::UInt8Builder, uint8_t>({1, 2, 3, {}, 255})},
                  {"big", array_of<arrow::UInt64Builder, uint64_t>({9, 8, 7, 6, 5})}},
                 2));
  for (const bool lengths : {false, true}) {
    const auto index = files.index(lengths);
    ASSERT_TRUE(index.ok()) << index.status().message();
    EXPECT_EQ(column_of(**index, 0), (Values{9, 8, 7, 6, 5}));
    EXPECT_EQ(column_of(**index, 1), (Values{1, 0, 0, 1, 0}));
    EXPECT_EQ(column_of(**index, 2), (Values{5, 0, 7, 0, 4294967295}));
    EXPECT_EQ(column_of(**index, 3), (Values{1, 2, 3, 0, 255}));
    EXPECT_TRUE((*index)->bad_rows().empty());
    EXPECT_EQ((*index)->manifest().lengths.empty(), !lengths);
    const auto rows = read_all(files.storage, **index);
    ASSERT_TRUE(rows.ok()) << rows.status().message();
    EXPECT_EQ(rows->texts[4], "eeeee");
  }
}

TEST(MetadataColumns, AValueThatIsNoneIsABadRowInBothFormats) {
  Files parquet(model::Format::kParquet, {"n"});
  parquet.put("a.parquet",
              parquet_of({"a", "b", "c", "d"}, {{"n", integers({3, -1, 1ll << 32, 2})}}, 3));
  Files lines(model::Format::kJsonl, {"n"});
  lines.put("a.jsonl",
            "{\"text\": \"a\", \"n\": 3}\n{\"text\": \"b\", \"n\": -1}\n"
            "{\"text\": \"c\", \"n\": 4294967296}\n{\"text\": \"d\", \"n\": 2}\n");
  for (Files* files : {&parquet, &lines}) {
    for (const bool lengths : {false, true}) {
      const auto index = files->index(lengths);
      ASSERT_TRUE(index.ok()) << index.status().message();
      EXPECT_EQ(column_of(**index, 0), (Values{3, 0, 0, 2}));
      const auto bad = (*index)->bad_rows();
      ASSERT_EQ(bad.size(), 2u);
      EXPECT_EQ(bad[0].first, 1u);
      EXPECT_TRUE(contains(bad[0].second, "row 1: metadata column 'n' is -1")) << bad[0].second;
      EXPECT_TRUE(contains(bad[1].second, "'n' is 4294967296, allowed: 0 to 4294967295"));
      if (!lengths) continue;
      const auto counts = (*index)->manifest().lengths;
      EXPECT_EQ(Values(counts.begin(), counts.end()),
                (Values{1, model::kBadRow, model::kBadRow, 1}));
    }
  }
}

TEST(MetadataColumns, JsonFieldsMayBeMissingButNotOfAnotherType) {
  Files files(model::Format::kJsonl, {"flag", "n"});
  files.put("a.jsonl",
            "{\"text\": \"a\"}\n{\"text\": \"b\", \"n\": null, \"flag\": true}\n"
            "{\"text\": \"c\", \"n\": \"3\"}\n{\"text\": \"d\", \"n\": 1.5}\n"
            "{\"text\": \"e\", \"n\": 1, \"n\": 2}\n{\"text\": \"\", \"n\": 4}\n"
            "{\"text\": \"g\", \"n\": 18446744073709551615}\n{\"text\": \"h\", \"n\": 6}\n");
  const auto index = files.index();
  ASSERT_TRUE(index.ok()) << index.status().message();
  EXPECT_EQ(column_of(**index, 0), (Values{0, 1, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(column_of(**index, 1), (Values{0, 0, 0, 0, 0, 0, 0, 6}));
  const auto bad = (*index)->bad_rows();
  ASSERT_EQ(bad.size(), 5u);
  EXPECT_TRUE(contains(bad[0].second, "field 'n' is a string, not an integer or boolean"));
  EXPECT_TRUE(contains(bad[1].second, "is a number, not an integer or boolean"));
  EXPECT_TRUE(contains(bad[2].second, "appears twice"));
  EXPECT_TRUE(contains(bad[3].second, "empty text"));
}

TEST(MetadataColumns, UnknownOnesAreRefusedNamingWhatThereIs) {
  Files parquet(model::Format::kParquet, {"patches"});
  parquet.put("a.parquet", parquet_of({"a"}, {{"quality", integers({1})}}));
  EXPECT_EQ(parquet.index().status().code(), Code::kNotFound);
  EXPECT_TRUE(contains(parquet.index().status().message(),
                       "has no column 'patches'; it has 'quality', 'text'"));
  Files lines(model::Format::kJsonl, {"patches"});
  lines.put("a.jsonl", "{\"text\": \"a\", \"quality\": 1}\n");
  lines.put("b.jsonl", "{\"text\": \"b\", \"quality\": 1}\n");
  EXPECT_EQ(lines.index().status().code(), Code::kNotFound);
  EXPECT_TRUE(contains(lines.index().status().message(),
                       "no row has the metadata field 'patches'; the first row has 'text', "
                       "'quality'"))
      << lines.index().status().message();
  lines.put("c.jsonl", "{\"text\": \"c\", \"patches\": 0}\n");
  EXPECT_TRUE(lines.index().ok());  // one row that has it is enough
  Files text(model::Format::kParquet, {"name"});
  arrow::StringBuilder names;
  ASSERT_TRUE(names.Append("x").ok());
  text.put("a.parquet", parquet_of({"a"}, {{"name", *names.Finish()}}));
  EXPECT_TRUE(contains(text.index().status().message(),
                       "column 'name' is string, metadata must be integers or booleans"));
}

TEST(MetadataColumns, MegatronHasNone) {
  Files files(model::Format::kMegatron, {"n"});
  files.source.text_column.clear();
  EXPECT_TRUE(contains(files.index().status().message(), "write the source as Parquet or JSONL"));
}

TEST(MetadataColumns, ACountChangesNoColumn) {
  Files parquet(model::Format::kParquet, {"n"});
  parquet.put("a.parquet", parquet_of({"a", "zz", "", "d"}, {{"n", integers({3, 4, 5, -1})}}, 3));
  Files lines(model::Format::kJsonl, {"n"});
  lines.put("a.jsonl",
            "{\"text\": \"a\", \"n\": 3}\n{\"text\": \"zz\", \"n\": 4}\n"
            "{\"text\": \"\", \"n\": 5}\n{\"text\": \"d\", \"n\": -1}\n");
  for (Files* files : {&parquet, &lines}) {
    files->source.vocabulary = 'f';  // only a count finds that zz is outside
    const auto plain = files->index(false);
    const auto counted = files->index(true);
    ASSERT_TRUE(counted.ok()) << counted.status().message();
    EXPECT_EQ((*counted)->bad_rows().size(), 3u);
    const bool is_parsed = files == &lines;  // a line that is no row has no values
    EXPECT_EQ(column_of(**counted, 0), (Values{3, 4, is_parsed ? 0u : 5u, 0}));
    EXPECT_EQ(column_of(**counted, 0), column_of(**plain, 0));
    EXPECT_EQ((*counted)->manifest().digest, (*plain)->manifest().digest);
  }
}

TEST(MetadataColumns, TakenOverShardsKeepTheirs) {
  Files files(model::Format::kJsonl, {"n"});
  for (int i = 0; i < 3; ++i) {
    const std::string number = std::to_string(i);
    files.put("s" + number + ".jsonl", "{\"text\": \"a" + number + "\", \"n\": " + number +
                                           "}\n{\"text\": \"b\"}\n{\"text\": \"c\", \"n\": -5}\n");
  }
  const std::string directory =
      (std::filesystem::temp_directory_path() / "columns-XXXXXX").string();
  std::string made = directory;
  ASSERT_NE(::mkdtemp(made.data()), nullptr);
  const std::string path = made + "/web.index";
  const auto refresh = [&] {
    ASSERT_TRUE(build_index(files.storage, nullptr, files.source, path, {}, {}, nullptr, {}).ok());
  };
  refresh();
  files.storage.put("mem:/s1.jsonl", "{\"text\": \"new\", \"n\": 41}\n");
  refresh();
  std::ifstream in(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  EXPECT_EQ(bytes, *build_index_bytes(files.storage, nullptr, files.source, {}, nullptr, {}));
  const auto index = SourceIndex::open(path, files.source);
  ASSERT_TRUE(index.ok());
  EXPECT_EQ(column_of(**index, 0), (Values{0, 0, 0, 41, 2, 0, 0}));
  // Other columns are another index, and one of an older build is told apart by what it lacks.
  files.source.metadata_columns = {"m", "n"};
  EXPECT_TRUE(contains(SourceIndex::open(path, files.source).status().message(),
                       "metadata was 'n', is 'm, n'"));
  std::filesystem::remove_all(made);
}

TEST(MetadataColumns, WithoutThemAnIndexIsAsItWas) {
  Files files(model::Format::kJsonl, {});
  files.put("a.jsonl", "{\"text\": \"a\", \"n\": -7}\n");
  const auto plain = build_index_bytes(files.storage, nullptr, files.source, {}, nullptr, {});
  ASSERT_TRUE(plain.ok());
  uint32_t head[2];
  std::memcpy(head, plain->data() + 8, sizeof head);
  EXPECT_EQ(head[0], 1u);
  EXPECT_EQ(head[1], 248u);
  files.storage.put("mem:/a.jsonl", "{\"text\": \"a\", \"n\": 7}\n");
  const auto before = files.index();
  files.source.metadata_columns = {"n"};
  const auto bytes = build_index_bytes(files.storage, nullptr, files.source, {}, nullptr, {});
  ASSERT_TRUE(bytes.ok());
  std::memcpy(head, bytes->data() + 8, sizeof head);
  EXPECT_EQ(head[0], 2u);
  EXPECT_EQ(head[1], 276u);
  EXPECT_NE((*SourceIndex::from_bytes(*bytes, files.source))->manifest().digest,
            (*before)->manifest().digest);
  for (size_t bit = 0; bit < bytes->size() * 8; bit += 13) {  // every damage is noticed
    std::string damaged = *bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    const auto opened = SourceIndex::from_bytes(damaged, files.source);
    EXPECT_TRUE(!opened.ok() || (*opened)->manifest().columns[0][0] == 7u) << "bit " << bit;
  }
}

}  // namespace
}  // namespace overlord::columnar
