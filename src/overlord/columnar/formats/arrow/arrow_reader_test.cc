#include "overlord/columnar/formats/arrow/arrow_reader.h"

#include <cstring>

#include "overlord/columnar/formats/arrow/arrow_writer_test.h"
#include "overlord/columnar/formats/arrow/foreign_arrow_test.h"
#include "overlord/columnar/reading_test.h"

namespace overlord::columnar {
namespace {

constexpr const char* kUri = "mem:/d/a.arrow";
const Cells kTexts = {"one", "two", "three", "four", "five"};
const std::vector<std::string> kRead = {"one", "two", "three", "four", "five"};

std::vector<IpcForm> all_forms() {
  std::vector<IpcForm> forms;
  for (const bool file : {false, true}) {
    for (const auto compression : {arrow::Compression::UNCOMPRESSED, arrow::Compression::LZ4_FRAME,
                                   arrow::Compression::ZSTD}) {
      forms.push_back({file, 2, compression});
    }
    forms.push_back({file, 100});
    forms.push_back({file, 2, arrow::Compression::UNCOMPRESSED, /*legacy=*/true});
  }
  return forms;
}

std::shared_ptr<arrow::Array> number_array(const std::vector<int64_t>& values) {
  arrow::Int64Builder builder;
  EXPECT_TRUE(builder.AppendValues(values).ok());
  return *builder.Finish();
}

std::shared_ptr<arrow::Table> table_of(
    const std::vector<std::pair<std::string, std::shared_ptr<arrow::Array>>>& columns) {
  arrow::FieldVector fields;
  arrow::ArrayVector arrays;
  for (const auto& [name, array] : columns) {
    fields.push_back(arrow::field(name, array->type()));
    arrays.push_back(array);
  }
  return arrow::Table::Make(arrow::schema(fields), arrays);
}

Result<std::shared_ptr<const SourceIndex>> index_of(const std::string& bytes,
                                                    model::Source source = arrow_source(kUri)) {
  runtime::MemoryStorage storage;
  storage.put(kUri, bytes);
  return build(storage, source);
}

void refuses(const std::string& bytes, const std::string& reason,
             model::Source source = arrow_source(kUri)) {
  const auto index = index_of(bytes, std::move(source));
  ASSERT_FALSE(index.ok()) << reason;
  EXPECT_TRUE(contains(index.status().message(), reason)) << index.status().message();
  EXPECT_TRUE(contains(index.status().message(), "source 'hub'")) << index.status().message();
}

TEST(ArrowReader, StreamsAndFilesPlainAndCompressed) {
  for (const auto& type : {arrow::utf8(), arrow::large_utf8(), arrow::binary()}) {
    for (const IpcForm& form : all_forms()) {
      runtime::MemoryStorage storage;
      storage.put(kUri, ipc_bytes(*table_of({{"other", number_array({1, 2, 3, 4, 5})},
                                             {"text", bytes_array(kTexts, type)}}),
                                  form));
      const auto index = build(storage, arrow_source(kUri));
      ASSERT_TRUE(index.ok()) << index.status().message();
      EXPECT_EQ((*index)->manifest().blocks.size(), form.batch_rows == 2 ? 3u : 1u);
      const auto rows = read_all(storage, **index);
      ASSERT_TRUE(rows.ok()) << rows.status().message();
      EXPECT_EQ(rows->texts, kRead);
    }
  }
}

TEST(ArrowReader, TokensAreListsOfAnyKind) {
  const auto values = number_array({1, 2, 3, 4, 5, 6});
  const auto mask = number_array({0, 1, 1, 0, 1, 1});
  const auto offsets32 = [](const std::vector<int32_t>& ends) {
    arrow::Int32Builder builder;
    EXPECT_TRUE(builder.AppendValues(ends).ok());
    return *builder.Finish();
  };
  const auto list = *arrow::ListArray::FromArrays(*offsets32({0, 2, 4, 6}), *values);
  const auto masks = *arrow::ListArray::FromArrays(*offsets32({0, 2, 4, 6}), *mask);
  const auto large = *arrow::LargeListArray::FromArrays(*number_array({0, 2, 4, 6}), *values);
  const auto fixed = *arrow::FixedSizeListArray::FromArrays(values, 2);
  for (const std::shared_ptr<arrow::Array>& ids :
       std::initializer_list<std::shared_ptr<arrow::Array>>{list, large, fixed}) {
    runtime::MemoryStorage storage;
    storage.put(kUri, ipc_bytes(*table_of({{"ids", ids}, {"mask", masks}})));
    model::Source source = arrow_source(kUri);
    source.text_column.clear();
    source.token_column = "ids";
    source.mask_column = "mask";
    source.vocabulary = 6;
    const auto index = build(storage, source);
    ASSERT_TRUE(index.ok()) << index.status().message();
    const auto rows = read_all(storage, **index);
    ASSERT_TRUE(rows.ok()) << rows.status().message();
    EXPECT_EQ(rows->tokens, (std::vector<std::vector<int64_t>>{{1, 2}, {3, 4}, {-1}}));
    EXPECT_EQ(rows->masks[1], (std::vector<int>{1, 0}));
    ASSERT_EQ(rows->bad.size(), 1u);  // 6 is no id of the vocabulary
    EXPECT_TRUE(contains(rows->bad[0].second, "row 2")) << rows->bad[0].second;
  }
}

TEST(ArrowReader, OnlyTheWantedColumnsAreRead) {
  const std::string ballast(200 << 10, 'x');
  const auto both = table_of({{"before", bytes_array(Cells(5, ballast), arrow::binary())},
                              {"text", bytes_array(kTexts, arrow::utf8())},
                              {"behind", bytes_array(Cells(5, ballast), arrow::binary())}});
  runtime::MemoryStorage storage;
  storage.put(kUri, ipc_bytes(*both, {true, 100}));
  const auto index = build(storage, arrow_source(kUri));
  ASSERT_TRUE(index.ok()) << index.status().message();
  const auto reader = (*index)->reader();
  const auto ranges = (*reader)->ranges({0, {}, nullptr});
  uint64_t bytes = 0;
  for (const RangeRequest& range : *ranges) bytes += range.size_bytes;
  EXPECT_LT(bytes, 2000u);
  EXPECT_EQ(read_all(storage, **index)->texts, kRead);
}

TEST(ArrowReader, ColumnsOfAnyTypeAreSteppedOver) {
  const auto strings = bytes_array(kTexts, arrow::utf8());
  const auto numbers = number_array({1, 2, 3, 4, 5});
  const auto dictionary = [&] {
    arrow::StringDictionaryBuilder builder;
    for (const auto& text : kTexts) EXPECT_TRUE(builder.Append(*text).ok());
    return *builder.Finish();
  }();
  const auto views = [&] {
    arrow::StringViewBuilder builder;
    for (int i = 0; i < 5; ++i) {
      EXPECT_TRUE(builder.Append(std::string(30, static_cast<char>('a' + i))).ok());
    }
    return *builder.Finish();
  }();
  const auto both =
      *arrow::StructArray::Make({strings, numbers}, std::vector<std::string>{"bytes", "path"});
  const auto table = table_of({{"null", std::make_shared<arrow::NullArray>(5)},
                               {"dictionary", dictionary},
                               {"views", views},
                               {"struct", both},
                               {"text", strings},
                               {"fixed", *arrow::FixedSizeListArray::FromArrays(numbers, 1)}});
  for (const bool file : {false, true}) {
    runtime::MemoryStorage storage;
    storage.put(kUri, ipc_bytes(*table, {file, 100}));
    const auto index = build(storage, arrow_source(kUri));
    ASSERT_TRUE(index.ok()) << index.status().message();
    const auto rows = read_all(storage, **index);
    ASSERT_TRUE(rows.ok()) << rows.status().message();
    EXPECT_EQ(rows->texts, kRead);
  }
  model::Source source = arrow_source(kUri);
  source.text_column = "gone";
  refuses(ipc_bytes(*table), "has no column 'gone'; it has 'null', 'dictionary'", source);
}

TEST(ArrowReader, AnyByteOfDictionariesAndViewsMayBeWrong) {
  for (const bool file : {false, true}) {
    const std::string good = ipc_bytes(*unplain_table(), {.file = file});
    runtime::MemoryStorage storage;
    storage.put("mem:/a.arrow", good);
    const auto index = build(storage, foreign_arrow_source(false));
    ASSERT_TRUE(index.ok()) << index.status().message();
    EXPECT_EQ(read_all(storage, **index)->texts, (std::vector<std::string>{"a", "bc", "a", "def"}));
    for (size_t at = 0; at < good.size(); ++at) {
      for (const int value : {0, 1, 0xff}) {
        std::string bytes = good;
        bytes[at] = static_cast<char>(value);
        takes_arrow(bytes);
      }
    }
  }
}

TEST(ArrowReader, BrokenTextIsOneBadRow) {
  for (const auto compression : {arrow::Compression::UNCOMPRESSED, arrow::Compression::ZSTD}) {
    runtime::MemoryStorage storage;
    storage.put(
        kUri, ipc_bytes(*text_table({"fine", "\xff\xfe", {}, "good"}), {false, 100, compression}));
    const auto index = build(storage, arrow_source(kUri));
    ASSERT_TRUE(index.ok()) << index.status().message();
    const auto rows = read_all(storage, **index);
    ASSERT_TRUE(rows.ok()) << rows.status().message();
    EXPECT_EQ(rows->texts, (std::vector<std::string>{"fine", "", "", "good"}));
    ASSERT_EQ(rows->bad.size(), 2u);
    EXPECT_TRUE(contains(rows->bad[0].second, "row 1: column 'text' is not valid UTF-8"));
    EXPECT_TRUE(contains(rows->bad[1].second, "row 2: column 'text' is null"));
  }
}

TEST(ArrowReader, MetadataColumns) {
  runtime::MemoryStorage storage;
  storage.put(kUri, ipc_bytes(*table_of({{"n", number_array({7, 8, -1, 10, 11})},
                                         {"text", bytes_array(kTexts, arrow::utf8())}})));
  model::Source source = arrow_source(kUri);
  source.metadata_columns = {"n"};
  const auto index = build(storage, source);
  ASSERT_TRUE(index.ok()) << index.status().message();
  const auto column = (*index)->manifest().columns[0];
  EXPECT_EQ(std::vector<uint32_t>(column.begin(), column.end()),
            (std::vector<uint32_t>{7, 8, 0, 10, 11}));
  ASSERT_EQ((*index)->bad_rows().size(), 1u);
  EXPECT_TRUE(contains((*index)->bad_rows()[0].second, "row 2"));
}

class ArrowMedia : public ::testing::Test {
 protected:
  std::shared_ptr<arrow::Table> table(bool large) const {
    const auto bytes = large ? arrow::large_binary() : arrow::binary();
    const auto text = large ? arrow::large_utf8() : arrow::utf8();
    const auto both = *arrow::StructArray::Make(
        {bytes_array({"img0", {}, {}}, bytes), bytes_array({"x.png", "in/b.png", {}}, text)},
        std::vector<std::string>{"bytes", "path"});
    return table_of({{"text", bytes_array({"a", "b", "c"}, text)},
                     {"image", both},
                     {"raw", bytes_array({"raw0", "", {}}, bytes)},
                     {"file", bytes_array({"c.flac", {}, "../c.flac"}, text)}});
  }

  model::Source source() const {
    model::Source source = arrow_source(kUri);
    source.media = {{"clip", {"file"}}, {"image", {"image"}}, {"raw", {"raw"}}};
    return source;
  }

  void put_files() {
    storage_.put("mem:/d/in/b.png", "img1");
    storage_.put("mem:/d/c.flac", "sound");
  }

  runtime::MemoryStorage storage_;
};

TEST_F(ArrowMedia, BytesStructsAndFiles) {
  using Kind = MediaPlace::Kind;
  put_files();
  for (const bool large : {false, true}) {
    for (const IpcForm& form : all_forms()) {
      storage_.put(kUri, ipc_bytes(*table(large), form));
      const auto index = build(storage_, source());
      ASSERT_TRUE(index.ok()) << index.status().message();
      const auto bad = (*index)->bad_rows();
      ASSERT_EQ(bad.size(), 1u);
      EXPECT_TRUE(contains(bad[0].second, "row 2: media 'clip': path '../c.flac' leads out of it"));
      const auto reader = (*index)->reader();
      Cells blobs;
      for (uint32_t block = 0; block < (*index)->manifest().blocks.size(); ++block) {
        const auto read =
            read_media(storage_, (*index)->manifest(), **reader, {block, {}, nullptr});
        ASSERT_TRUE(read.ok()) << read.status().message();
        for (const std::vector<runtime::Bytes>& cell : *read) {
          ASSERT_LE(cell.size(), 1u);
          blobs.push_back(cell.empty() ? std::nullopt
                                       : std::optional(std::string(cell[0].data, cell[0].size)));
        }
      }
      EXPECT_EQ(blobs, (Cells{"sound", "img0", "raw0", {}, "img1", "", {}, {}, {}}));
      // What is not compressed is read where it lies in the shard.
      const std::vector<MediaPlace> places = (*reader)->media_places({0, {0}, nullptr})->blobs;
      ASSERT_EQ(places.size(), 3u);
      const bool plain = form.compression == arrow::Compression::UNCOMPRESSED;
      EXPECT_EQ(places[0].kind, Kind::kRange);
      EXPECT_EQ(places[2].kind, plain ? Kind::kRange : Kind::kDecoded);
      EXPECT_EQ(places[2].uri, plain ? kUri : "");
      EXPECT_EQ((*index)->media_sizes(1)[0], 4u);
      EXPECT_EQ((*index)->media_ends(1)[2], 2u) << "the bad row has none";
    }
  }
}

TEST_F(ArrowMedia, AColumnOfNumbersIsRefused) {
  model::Source numbers = arrow_source(kUri);
  numbers.media = {{"image", {"n"}}};
  refuses(
      ipc_bytes(*table_of({{"n", number_array({1})}, {"text", bytes_array({"a"}, arrow::utf8())}})),
      "media must be binary, struct{bytes, path} or paths", numbers);
}

TEST(ArrowReader, ShardsWithOtherColumnsAreRefused) {
  runtime::MemoryStorage storage;
  storage.put("mem:/a.arrow", ipc_bytes(*text_table({"a"})));
  storage.put("mem:/b.arrow",
              ipc_bytes(*table_of({{"text", bytes_array({"b"}, arrow::large_utf8())}})));
  model::Source source = arrow_source("mem:/a.arrow");
  source.files.push_back("mem:/b.arrow");
  const auto index = build(storage, source);
  ASSERT_FALSE(index.ok());
  EXPECT_TRUE(contains(index.status().message(), "text: large_string or null"))
      << index.status().message();
}

TEST(ArrowReader, AFileThatChangedIsRefused) {
  runtime::MemoryStorage storage;
  storage.put(kUri, ipc_bytes(*text_table(kTexts)));
  const auto index = build(storage, arrow_source(kUri));
  ASSERT_TRUE(index.ok());
  storage.put(kUri, ipc_bytes(*text_table({"six", "seven"})));
  EXPECT_EQ(read_all(storage, **index).status().code(), Code::kSourceChanged);
}

// Broken shards: refused by name, before anything is allocated for what they say.

TEST(BrokenArrow, OtherFormats) {
  refuses("", "is too short for Arrow");
  refuses(std::string("ARROW1\0\0", 8), "no footer");
  refuses("FEA1....FEA1....", "is Feather version 1");
  refuses("PAR1....PAR1....", "is a Parquet file; set `format: parquet`");
  refuses("{\"text\": \"this is no Arrow at all\"}", "is the shard cut short, or no Arrow IPC?");
  refuses(std::string(64, '\0'), "has no schema");
}

TEST(BrokenArrow, ZeroRows) {
  for (const bool file : {false, true}) {
    refuses(ipc_bytes(*text_table({}), {file}), "has no rows");
  }
}

TEST(BrokenArrow, EveryCutIsRefusedOrAtAMessagesEnd) {
  const std::string file = ipc_bytes(*text_table(kTexts), {true});
  for (size_t size = 0; size < file.size(); ++size) {
    EXPECT_FALSE(index_of(file.substr(0, size)).ok()) << size;
  }
  const std::string stream = ipc_bytes(*text_table(kTexts));
  size_t whole = 0;
  for (size_t size = 0; size < stream.size(); ++size) {
    const auto index = index_of(stream.substr(0, size));
    if (!index.ok()) continue;
    ++whole;  // a stream may end without an end mark
    EXPECT_EQ((*index)->manifest().rows % 2, whole == 3 ? 1u : 0u);
  }
  EXPECT_EQ(whole, 3u);
}

TEST(BrokenArrow, JoinedStreams) {
  const std::string stream = ipc_bytes(*text_table(kTexts));
  refuses(stream + stream, "has bytes behind the end of its stream");
}

// The place of the first record batch's prefix, behind the schema message.
size_t first_batch(const std::string& stream) {
  uint32_t length = 0;
  std::memcpy(&length, stream.data() + 4, 4);
  return 8 + length;
}

TEST(BrokenArrow, LengthsThatLie) {
  const std::string stream = ipc_bytes(*text_table(kTexts));
  for (const uint32_t length : {0x7fffffffu, 0xfffffff0u, 100'000u}) {
    std::string lying = stream;
    std::memcpy(lying.data() + first_batch(stream) + 4, &length, 4);
    refuses(lying, "says its header has " + std::to_string(length) + " bytes");
  }
  std::string file = ipc_bytes(*text_table(kTexts), {true});
  const uint32_t footer = 0x7fffffff;
  std::memcpy(file.data() + file.size() - 10, &footer, 4);
  refuses(file, "footer length 2147483647");
}

// Every 8-byte word of a header that can be a size or a place, replaced by one that lies.
TEST(BrokenArrow, WordsOfHeadersThatLie) {
  for (const IpcForm& form :
       {IpcForm{false}, IpcForm{true}, IpcForm{false, 2, arrow::Compression::ZSTD}}) {
    const std::string good = ipc_bytes(*text_table(kTexts), form);
    for (size_t at = 0; at + 8 <= good.size(); at += 4) {
      for (const uint64_t lie : {uint64_t{1} << 40, ~uint64_t{0}, uint64_t{0x7fffffffffffffff}}) {
        std::string bytes = good;
        std::memcpy(bytes.data() + at, &lie, 8);
        runtime::MemoryStorage storage;
        storage.put(kUri, bytes);
        const auto index = build(storage, arrow_source(kUri));
        if (!index.ok()) continue;
        const auto rows = read_all(storage, **index);  // a Status, or rows
        EXPECT_TRUE(rows.ok() || contains(rows.status().message(), "source 'hub'"));
      }
    }
  }
}

TEST(BrokenArrow, OffsetsOutOfRangeCondemnTheBatch) {
  const std::string good = ipc_bytes(*text_table({"abcdefgh"}), {false, 100});
  std::string bytes = good;
  const uint32_t offsets[] = {0, 8};
  const size_t at = good.rfind(std::string_view(reinterpret_cast<const char*>(offsets), 8));
  ASSERT_NE(at, std::string::npos);
  const uint32_t lie = 1 << 30;
  std::memcpy(bytes.data() + at + 4, &lie, 4);
  runtime::MemoryStorage storage;
  storage.put(kUri, bytes);
  const auto index = build(storage, arrow_source(kUri));
  ASSERT_TRUE(index.ok()) << index.status().message();
  const auto rows = read_all(storage, **index);
  ASSERT_FALSE(rows.ok());
  EXPECT_EQ(rows.status().code(), Code::kBadData);
  EXPECT_TRUE(contains(rows.status().message(), "block 0 (rows 0 to 0")) << rows.status().message();
}

TEST(BrokenArrow, BatchesOverTheLimit) {
  model::Source source = arrow_source(kUri);
  source.limits.max_block_bytes = 1 << 20;
  const auto big = text_table({std::string(2 << 20, 'x')});
  refuses(ipc_bytes(*big), "over limits.max_block (1048576); write smaller batches", source);
  refuses(ipc_bytes(*big, {false, 2, arrow::Compression::ZSTD}), "write smaller batches", source);
}

}  // namespace
}  // namespace overlord::columnar
