#include "overlord/columnar/formats/parquet/parquet_reader.h"

#include <arrow/api.h>
#include <arrow/io/memory.h>
#include <arrow/util/secure_string.h>
#include <gtest/gtest.h>
#include <parquet/arrow/writer.h>
#include <parquet/encryption/encryption.h>

#include <numeric>
#include <random>

#include "overlord/columnar/reading_test.h"

namespace overlord::columnar {
namespace {

using NumberList = std::vector<std::optional<int64_t>>;
using NumberLists = std::vector<std::optional<NumberList>>;
using OptionalTexts = std::vector<std::optional<std::string>>;

std::shared_ptr<arrow::Array> text_array(
    const OptionalTexts& texts, const std::shared_ptr<arrow::DataType>& type = arrow::utf8()) {
  auto builder = *arrow::MakeBuilder(type);
  for (const auto& text : texts) {
    arrow::Status status;
    if (!text) {
      status = builder->AppendNull();
    } else if (type->id() == arrow::Type::LARGE_STRING) {
      status = static_cast<arrow::LargeStringBuilder&>(*builder).Append(*text);
    } else {
      status = static_cast<arrow::BinaryBuilder&>(*builder).Append(*text);
    }
    EXPECT_TRUE(status.ok());
  }
  return *builder->Finish();
}

std::shared_ptr<arrow::Array> list_array(const NumberLists& lists,
                                         const std::shared_ptr<arrow::DataType>& type) {
  auto builder = *arrow::MakeBuilder(type);
  const auto value_type = type->field(0)->type();
  arrow::ArrayBuilder* values =
      type->id() == arrow::Type::LARGE_LIST
          ? static_cast<arrow::LargeListBuilder&>(*builder).value_builder()
          : static_cast<arrow::ListBuilder&>(*builder).value_builder();
  for (const auto& list : lists) {
    EXPECT_TRUE((list ? builder->AppendEmptyValue() : builder->AppendNull()).ok());
    if (!list) continue;
    // AppendEmptyValue opened an empty slot; its values are what the child gets until the next one.
    for (const auto& value : *list) {
      arrow::Status status;
      if (!value) {
        status = values->AppendNull();
      } else {
        status = values->AppendScalar(**arrow::MakeScalar(value_type, *value));
      }
      EXPECT_TRUE(status.ok()) << status.ToString();
    }
  }
  return *builder->Finish();
}

struct Written {
  std::shared_ptr<arrow::Schema> schema;
  std::vector<std::shared_ptr<arrow::Array>> arrays;
  parquet::WriterProperties::Builder properties;
  int64_t group_rows = 1000;

  void add(const std::string& name, const std::shared_ptr<arrow::Array>& array) {
    fields_.push_back(arrow::field(name, array->type()));
    arrays.push_back(array);
  }
  void add(const std::shared_ptr<arrow::Field>& field, const std::shared_ptr<arrow::Array>& array) {
    fields_.push_back(field);
    arrays.push_back(array);
  }
  std::string bytes() {
    auto table = arrow::Table::Make(arrow::schema(fields_), arrays);
    auto sink = *arrow::io::BufferOutputStream::Create();
    auto arrow_properties = parquet::ArrowWriterProperties::Builder().store_schema()->build();
    const arrow::Status status =
        parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), sink, group_rows,
                                   properties.build(), arrow_properties);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return (*sink->Finish())->ToString();
  }

 private:
  std::vector<std::shared_ptr<arrow::Field>> fields_;
};

struct Shard {
  runtime::MemoryStorage storage;
  model::Source source;

  explicit Shard(const std::string& bytes, bool text = false) {
    storage.put("mem:/a.parquet", bytes);
    source.name = "web";
    source.format = model::Format::kParquet;
    source.files = {"mem:/a.parquet"};
    (text ? source.text_column : source.token_column) = text ? "text" : "tokens";
  }
  Result<AllRows> read(std::shared_ptr<runtime::BufferPool> pool = nullptr) {
    OVERLORD_TRY(const auto index, build(storage, source));
    return read_all(storage, *index, std::move(pool));
  }
  Status index() { return build(storage, source).status(); }
};

NumberLists counted_lists(size_t rows, int64_t modulo) {
  NumberLists lists;
  int64_t next = 0;
  for (size_t i = 0; i < rows; ++i) {
    lists.emplace_back(std::vector<std::optional<int64_t>>());
    for (size_t j = 0; j <= i % 17; ++j) lists.back()->push_back(next++ * 31 % modulo);
  }
  return lists;
}

std::vector<std::vector<int64_t>> plain(const NumberLists& lists) {
  std::vector<std::vector<int64_t>> out;
  for (const auto& list : lists) {
    out.emplace_back();
    for (const auto& value : *list) out.back().push_back(*value);
  }
  return out;
}

TEST(ParquetReader, ReadsListsOfEveryIntegerType) {
  const NumberLists lists = counted_lists(100, 120);
  for (const auto& value : {arrow::int8(), arrow::uint8(), arrow::int16(), arrow::uint16(),
                            arrow::int32(), arrow::uint32(), arrow::int64(), arrow::uint64()}) {
    for (const bool large : {false, true}) {
      Written written;
      written.group_rows = 30;
      written.add("tokens",
                  list_array(lists, large ? arrow::large_list(value) : arrow::list(value)));
      Shard shard(written.bytes());
      const auto all = shard.read();
      ASSERT_TRUE(all.ok()) << all.status().message();
      EXPECT_EQ(all->tokens, plain(lists)) << value->ToString();
      EXPECT_TRUE(all->bad.empty());
    }
  }
}

TEST(ParquetReader, ReadsFixedSizeLists) {
  Written written;
  auto builder = arrow::FixedSizeListBuilder(arrow::default_memory_pool(),
                                             std::make_shared<arrow::Int32Builder>(), 3);
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(builder.Append().ok());
    for (int j = 0; j < 3; ++j) {
      ASSERT_TRUE(
          static_cast<arrow::Int32Builder*>(builder.value_builder())->Append(i * 3 + j).ok());
    }
  }
  written.add("tokens", *builder.Finish());
  Shard shard(written.bytes());
  const auto all = shard.read();
  ASSERT_TRUE(all.ok()) << all.status().message();
  EXPECT_EQ(all->tokens[3], (std::vector<int64_t>{9, 10, 11}));
}

TEST(ParquetReader, ReadsAllCodecsAndPageVersions) {
  const NumberLists lists = counted_lists(3000, 50'000);
  for (const auto codec :
       {arrow::Compression::UNCOMPRESSED, arrow::Compression::SNAPPY, arrow::Compression::GZIP,
        arrow::Compression::ZSTD, arrow::Compression::LZ4, arrow::Compression::BROTLI}) {
    for (const bool v2 : {false, true}) {
      Written written;
      written.properties.compression(codec)->enable_page_checksum()->data_pagesize(2000);
      if (v2) written.properties.data_page_version(parquet::ParquetDataPageVersion::V2);
      if (v2) written.properties.disable_dictionary();
      written.add("other", text_array(OptionalTexts(3000, "unused " + std::string(50, 'x'))));
      written.add("tokens", list_array(lists, arrow::list(arrow::int32())));
      Shard shard(written.bytes());
      const auto all = shard.read(runtime::BufferPool::make(64 << 20));
      ASSERT_TRUE(all.ok()) << all.status().message();
      EXPECT_EQ(all->tokens, plain(lists));
    }
  }
}

TEST(ParquetReader, OnlyTheNeededColumnsAreRead) {
  std::mt19937_64 random(5);
  OptionalTexts noise;
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (int j = 0; j < 30; ++j) text += std::to_string(random());
    noise.push_back(text);
  }
  Written written;
  written.add("a", text_array(noise));
  written.add("tokens", list_array(counted_lists(2000, 100), arrow::list(arrow::int32())));
  written.add("z", text_array(noise));
  const std::string bytes = written.bytes();
  Shard shard(bytes);
  const auto index = build(shard.storage, shard.source);
  ASSERT_TRUE(index.ok());
  const auto reader = (*index)->reader();
  for (uint32_t block = 0; block < 2; ++block) {
    const auto ranges = (*reader)->ranges({block, {}});
    ASSERT_EQ(ranges->size(), 1u);
    EXPECT_LT((*ranges)[0].size_bytes, bytes.size() / 20);
  }
  EXPECT_LT((*index)->mapped_bytes(), 3000u);
}

TEST(ParquetReader, ValuesAreSharedNotCopied) {
  Written written;
  written.add("tokens", list_array(counted_lists(1000, 100), arrow::list(arrow::int32())));
  Shard shard(written.bytes());
  const auto index = build(shard.storage, shard.source);
  runtime::Bytes kept;
  {
    const auto reader = (*index)->reader();
    auto rows =
        read_block(shard.storage, **index, **reader, {0, {}, runtime::BufferPool::make(1 << 20)});
    ASSERT_TRUE(rows.ok());
    EXPECT_EQ(rows->tokens.values.size % 4, 0u);
    kept = rows->tokens.values;
  }
  // The bytes outlive reader, pool and block.
  const auto* ids = reinterpret_cast<const int32_t*>(kept.data);
  EXPECT_EQ(ids[1], 31);
}

TEST(ParquetReader, ShortIdsSettleOutOfScratchMemory) {
  const NumberLists lists = counted_lists(1000, 60'000);
  for (const auto& value : {arrow::uint16(), arrow::int32(), arrow::int64()}) {
    for (const uint32_t vocabulary : {60'000u, 70'000u, 0u}) {
      Written written;
      written.group_rows = 20'000;
      written.add("tokens", list_array(lists, arrow::list(value)));
      Shard shard(written.bytes());
      shard.source.vocabulary = vocabulary;
      const auto index = build(shard.storage, shard.source);
      const auto reader = (*index)->reader();
      const auto pool = runtime::BufferPool::make(0), scratch = runtime::BufferPool::make(0);
      const auto rows = read_block(shard.storage, **index, **reader, {0, {}, pool, scratch});
      ASSERT_TRUE(rows.ok()) << rows.status().message();
      std::vector<std::vector<int64_t>> got;
      for (size_t row = 0; row < rows->tokens.rows(); ++row) {
        got.push_back(row_of(rows->tokens, row));
      }
      EXPECT_TRUE(got == plain(lists));
      EXPECT_EQ(scratch->stats().held_bytes, 0u) << "nothing of it is kept";
      const bool is_short = vocabulary == 60'000u;
      EXPECT_EQ(rows->tokens.element == Element::kU16,
                is_short || value->id() == arrow::Type::UINT16);
      if (is_short) {
        EXPECT_LT(pool->stats().held_bytes, rows->tokens.values.size + 4096);
      }
    }
  }
}

TEST(ParquetReader, UnwantedRowsAreEmpty) {
  Written written;
  written.add("tokens", list_array({{{1, 2}}, NumberList{}, {{3}}, std::nullopt},
                                   arrow::list(arrow::int32())));
  Shard shard(written.bytes());
  const auto index = build(shard.storage, shard.source);
  const auto reader = (*index)->reader();
  const auto rows = read_block(shard.storage, **index, **reader, {0, {2, 3}});
  EXPECT_EQ(rows->tokens.counts, (std::vector<uint32_t>{0, 0, 1, model::kBadRow}));
  ASSERT_EQ(rows->tokens.bad.size(), 1u);
  EXPECT_EQ(rows->tokens.bad[0].index, 3u);
}

TEST(ParquetReader, TextOfEveryType) {
  const OptionalTexts texts = {"hello", "w\xc3\xb6rld", std::string("nul\0inside", 10), "end"};
  for (const auto& type : {arrow::utf8(), arrow::large_utf8(), arrow::binary()}) {
    Written written;
    written.group_rows = 3;
    written.add("text", text_array(texts, type));
    Shard shard(written.bytes(), true);
    const auto all = shard.read();
    ASSERT_TRUE(all.ok()) << all.status().message();
    ASSERT_EQ(all->texts.size(), 4u);
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(all->texts[i], *texts[i]);
  }
}

TEST(ParquetReader, FaultsOfTextAreBadRows) {
  Written written;
  written.add("text", text_array({"good", std::nullopt, "", " \n\xe3\x80\x80", "\xff\xfe",
                                  std::string(2000, 'x'), "fine"},
                                 arrow::binary()));
  Shard shard(written.bytes(), true);
  shard.source.limits.max_document_bytes = 1000;
  const auto all = shard.read();
  ASSERT_TRUE(all.ok()) << all.status().message();
  EXPECT_EQ(all->texts, (std::vector<std::string>{"good", "", "", "", "", "", "fine"}));
  const char* says[] = {"'text' is null", "empty text", "empty text", "not valid UTF-8",
                        "over limits.max_document (1000)"};
  ASSERT_EQ(all->bad.size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(all->bad[i].first, i + 1);
    EXPECT_TRUE(contains(all->bad[i].second, says[i])) << all->bad[i].second;
    EXPECT_TRUE(
        contains(all->bad[i].second, "shard 'mem:/a.parquet', row " + std::to_string(i + 1)));
  }
}

TEST(ParquetReader, FaultsOfTokensAreBadRows) {
  Written written;
  written.add("tokens", list_array({{{1, 2}},
                                    std::nullopt,
                                    NumberList{},
                                    {{3, std::nullopt}},
                                    {{4, -5}},
                                    {{6, 900}},
                                    {{7, 8}},
                                    {{7}},
                                    {{7, 8}},
                                    {{7}},
                                    {{9, 9, 9}}},
                                   arrow::list(arrow::int64())));
  written.add("mask", list_array({{{0, 1}},
                                  {{1}},
                                  NumberList{},
                                  {{1, 1}},
                                  {{1, 1}},
                                  {{1, 1}},
                                  {{1}},
                                  std::nullopt,
                                  {{1, std::nullopt}},
                                  {{2}},
                                  {{1, 0, 1}}},
                                 arrow::list(arrow::int32())));
  Shard shard(written.bytes());
  shard.source.mask_column = "mask";
  shard.source.vocabulary = 900;
  const auto all = shard.read();
  ASSERT_TRUE(all.ok()) << all.status().message();
  EXPECT_EQ(all->tokens.front(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(all->tokens.back(), (std::vector<int64_t>{9, 9, 9}));
  EXPECT_EQ(all->masks.front(), (std::vector<int>{0, 1}));
  EXPECT_EQ(all->masks.back(), (std::vector<int>{1, 0, 1}));
  const char* says[] = {"'tokens' is null",
                        "empty list",
                        "'tokens'[1] is null",
                        "token id -5",
                        "token id 900",
                        "has 1 values for 2 tokens",
                        "mask column 'mask' is null",
                        "'mask'[1] is null",
                        "'mask'[0] is neither 0 nor 1"};
  ASSERT_EQ(all->bad.size(), 9u);
  for (size_t i = 0; i < 9; ++i) {
    EXPECT_EQ(all->bad[i].first, i + 1);
    EXPECT_TRUE(contains(all->bad[i].second, says[i])) << all->bad[i].second;
  }
}

TEST(ParquetReader, BooleanMasks) {
  Written written;
  written.add("tokens", list_array({{{1, 2, 3}}, {{4}}}, arrow::list(arrow::int32())));
  auto builder =
      arrow::ListBuilder(arrow::default_memory_pool(), std::make_shared<arrow::BooleanBuilder>());
  auto* flags = static_cast<arrow::BooleanBuilder*>(builder.value_builder());
  ASSERT_TRUE(builder.Append().ok() && flags->Append(true).ok() && flags->Append(false).ok() &&
              flags->Append(true).ok() && builder.Append().ok() && flags->Append(false).ok());
  written.add("mask", *builder.Finish());
  Shard shard(written.bytes());
  shard.source.mask_column = "mask";
  const auto all = shard.read();
  ASSERT_TRUE(all.ok()) << all.status().message();
  EXPECT_EQ(all->masks, (std::vector<std::vector<int>>{{1, 0, 1}, {0}}));
}

TEST(ParquetReader, RefusesColumnsItCannotTake) {
  Written written;
  written.add("tokens", text_array({"a"}));
  written.add("text", list_array({{{1}}}, arrow::list(arrow::int32())));
  const std::string bytes = written.bytes();
  for (const bool text : {false, true}) {
    Shard shard(bytes, text);
    const Status status = shard.index();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.message();
    EXPECT_TRUE(contains(status.message(), text ? "must be string" : "must be a list of integers"));
  }
  Shard missing(bytes, true);
  missing.source.text_column = "body";
  const Status status = missing.index();
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_TRUE(contains(status.message(), "no column 'body'; it has 'tokens', 'text'"));
}

TEST(ParquetReader, ExtensionTypesAreRefused) {
  Written written;
  auto note = arrow::key_value_metadata({"ARROW:extension:name", "ARROW:extension:metadata"},
                                        {"evil.pickle", "payload"});
  written.add(arrow::field("text", arrow::utf8(), true, note), text_array({"a"}));
  written.add("plain", text_array({"a"}));
  Shard shard(written.bytes(), true);
  const Status status = shard.index();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(contains(status.message(), "extension type")) << status.message();
  shard.source.text_column = "plain";  // a neighbour may be what it likes
  EXPECT_TRUE(shard.index().ok());
}

TEST(ParquetReader, SchemaDriftIsRefusedWithBothSchemas) {
  const auto bytes_of = [](const std::shared_ptr<arrow::DataType>& type, int64_t first) {
    Written written;
    written.add("tokens", list_array({{{first, 2}}}, arrow::list(type)));
    return written.bytes();
  };
  Shard shard(bytes_of(arrow::int32(), 1));
  shard.storage.put("mem:/b.parquet", bytes_of(arrow::int64(), 2));
  shard.source.files.push_back("mem:/b.parquet");
  const Status status = shard.index();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(contains(status.message(), "list<int32")) << status.message();
  EXPECT_TRUE(contains(status.message(), "list<int64")) << status.message();
  EXPECT_TRUE(contains(status.message(), "b.parquet")) << status.message();
}

TEST(ParquetReader, BrokenFilesAreRefusedWithTheReason) {
  Written written;
  written.add("tokens", list_array(counted_lists(100, 50), arrow::list(arrow::int32())));
  const std::string good = written.bytes();
  std::string footer_length = good;
  footer_length[good.size() - 5] = '\x7f';
  std::string footer = good;
  footer[good.size() - 60] = static_cast<char>(footer[good.size() - 60] ^ 0x55);
  std::string encrypted = good;
  encrypted[good.size() - 1] = 'E';
  std::string magic = good;
  magic[good.size() - 1] = 'X';
  const std::vector<std::tuple<std::string, Code, std::string>> cases = {
      {"", Code::kBadData, "too short"},
      {"PAR1", Code::kBadData, "too short"},
      {magic, Code::kBadData, "no Parquet magic"},
      {encrypted, Code::kInvalidArgument, "encrypted"},
      {footer_length, Code::kBadData, "footer length"},
      {good.substr(0, good.size() - 20), Code::kBadData, "no Parquet magic"},
      {good.substr(0, 100) + good.substr(good.size() - 400), Code::kBadData, ""},
  };
  for (const auto& [bytes, code, says] : cases) {
    Shard shard(bytes);
    const Status status = shard.index();
    EXPECT_EQ(status.code(), code) << status.message();
    EXPECT_TRUE(contains(status.message(), says)) << status.message();
    EXPECT_TRUE(contains(status.message(), "mem:/a.parquet")) << status.message();
  }
}

TEST(ParquetReader, LimitsAreCheckedBeforeMemoryIsTaken) {
  Written written;
  written.add("tokens", list_array(counted_lists(5000, 3), arrow::list(arrow::int64())));
  written.group_rows = 5000;
  Shard shard(written.bytes());
  shard.source.limits.max_block_bytes = 100'000;
  Status status = shard.index();
  EXPECT_EQ(status.code(), Code::kBadData);
  EXPECT_TRUE(contains(status.message(), "over limits.max_block (100000)")) << status.message();
  shard.source.limits.max_block_bytes = 30'000;
  status = shard.index();
  EXPECT_TRUE(contains(status.message(), "declares 5000 rows")) << status.message();
}

// One word of 1 MB, referred to 300 times by a dictionary: 300 MB out of 1 MB.
TEST(ParquetReader, ADictionaryBombIsStopped) {
  Written written;
  written.properties.enable_dictionary()->dictionary_pagesize_limit(8 << 20);
  written.add("text", text_array(OptionalTexts(300, std::string(1 << 20, 'x'))));
  const std::string bytes = written.bytes();
  ASSERT_LT(bytes.size(), 4u << 20);
  Shard shard(bytes, true);
  shard.source.limits.max_block_bytes = 16 << 20;
  const auto index = build(shard.storage, shard.source);
  ASSERT_TRUE(index.ok()) << index.status().message();
  const Status status = read_all(shard.storage, **index).status();
  EXPECT_EQ(status.code(), Code::kBadData);
  EXPECT_TRUE(contains(status.message(), "limits.max_block")) << status.message();
}

TEST(ParquetReader, AFlippedByteInAPageIsFoundByItsChecksum) {
  Written written;
  written.properties.enable_page_checksum()->compression(arrow::Compression::UNCOMPRESSED);
  written.add("tokens", list_array(counted_lists(1000, 50'000), arrow::list(arrow::int32())));
  std::string bytes = written.bytes();
  const Shard good(bytes);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  Shard shard(bytes);
  const Status status = shard.read().status();
  EXPECT_EQ(status.code(), Code::kBadData);
  EXPECT_TRUE(contains(status.message(), "mem:/a.parquet")) << status.message();
  EXPECT_TRUE(contains(status.message(), "block 0")) << status.message();
}

TEST(ParquetReader, RandomDamageNeverCrashes) {
  Written written;
  written.properties.compression(arrow::Compression::SNAPPY);
  written.group_rows = 100;
  written.add("tokens", list_array(counted_lists(400, 5000), arrow::list(arrow::int32())));
  written.add("text", text_array(OptionalTexts(400, "some text")));
  const std::string good = written.bytes();
  std::mt19937 random(1);
  for (int round = 0; round < 1500; ++round) {
    std::string bytes = good;
    // Half of the rounds aim at the footer, which the metadata comes from.
    const size_t from = round % 2 == 0 ? 0 : good.size() - 600;
    for (int i = 0; i < 2; ++i) {
      bytes[from + random() % (good.size() - from)] = static_cast<char>(random());
    }
    Shard shard(bytes, round % 3 == 0);
    shard.source.limits.max_block_bytes = 1 << 20;
    const auto all = shard.read();
    static_cast<void>(all.ok());
  }
}

TEST(ParquetReader, EncryptedColumnsAreRefused) {
  Written written;
  written.add("tokens", list_array({{{1}}}, arrow::list(arrow::int32())));
  parquet::FileEncryptionProperties::Builder encryption(
      arrow::util::SecureString(std::string("0123456789012345")));
  written.properties.encryption(encryption.set_plaintext_footer()->build());
  Shard shard(written.bytes());
  const Status status = shard.index();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(contains(status.message(), "encrypted")) << status.message();
}

TEST(ParquetReader, LengthsComeWithTheIndexUnlessThereIsAMask) {
  Written written;
  written.add("tokens", list_array({{{1, 2}}, NumberList{}, {{3}}}, arrow::list(arrow::int32())));
  written.add("mask", list_array({{{1, 1}}, NumberList{}, {{0}}}, arrow::list(arrow::int32())));
  Shard shard(written.bytes());
  IndexOptions options;
  options.lengths = true;
  const auto index = build(shard.storage, shard.source, options);
  ASSERT_TRUE(index.ok()) << index.status().message();
  const auto lengths = (*index)->manifest().lengths;
  EXPECT_EQ(std::vector<uint32_t>(lengths.begin(), lengths.end()),
            (std::vector<uint32_t>{2, model::kBadRow, 1}));
  shard.source.mask_column = "mask";
  const auto masked = build(shard.storage, shard.source, options);
  ASSERT_TRUE(masked.ok()) << masked.status().message();
  EXPECT_EQ((*masked)->manifest().meta_origin, model::MetaOrigin::kDecode);
  EXPECT_TRUE((*masked)->manifest().lengths.empty());
}

}  // namespace
}  // namespace overlord::columnar
