// Any bytes as an Arrow shard: it is indexed, and every text and blob the index knows is read.
// Shared by the fuzz target and by its smoke run among the tests.
#pragma once

#include <string>
#include <string_view>

#include "overlord/base/check.h"
#include "overlord/columnar/formats/arrow/arrow_writer_test.h"
#include "overlord/columnar/reading_test.h"

namespace overlord::columnar {

inline model::Source foreign_arrow_source(bool tokens) {
  model::Source source;
  source.name = "hub";
  source.format = model::Format::kArrow;
  source.files = {"mem:/a.arrow"};
  (tokens ? source.token_column : source.text_column) = tokens ? "ids" : "text";
  source.metadata_columns = {"n"};
  source.media = {{"image", {"image"}}};
  source.vocabulary = 256;
  source.limits.max_block_bytes = 1 << 20;
  return source;
}

// Rows of all that the source below wants, for good shards.
inline std::shared_ptr<arrow::Table> small_table() {
  arrow::ListBuilder ids(arrow::default_memory_pool(), std::make_shared<arrow::Int32Builder>());
  arrow::Int64Builder numbers;
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(ids.Append().ok());
    EXPECT_TRUE(static_cast<arrow::Int32Builder*>(ids.value_builder())->Append(i).ok());
    EXPECT_TRUE(numbers.Append(i).ok());
  }
  const auto image =
      *arrow::StructArray::Make({bytes_array({"one", {}, "three", {}}, arrow::binary()),
                                 bytes_array({{}, "b.png", {}, {}}, arrow::utf8())},
                                std::vector<std::string>{"bytes", "path"});
  return arrow::Table::Make(
      arrow::schema({arrow::field("ids", arrow::list(arrow::int32())),
                     arrow::field("n", arrow::int64()), arrow::field("image", image->type()),
                     arrow::field("text", arrow::utf8())}),
      {*ids.Finish(), *numbers.Finish(), image,
       bytes_array({"a", "bc", "def", {}}, arrow::utf8())});
}

// The same with columns that are stored otherwise: dictionaries, and views.
inline std::shared_ptr<arrow::Table> unplain_table() {
  arrow::StringDictionaryBuilder texts;
  arrow::DictionaryBuilder<arrow::Int64Type> numbers;
  arrow::BinaryViewBuilder images;
  for (const char* text : {"a", "bc", "a", "def"}) {
    EXPECT_TRUE(texts.Append(text).ok());
    EXPECT_TRUE(numbers.Append(text[0]).ok());
    EXPECT_TRUE(images.Append(std::string(20, text[0])).ok());
  }
  const auto text = *texts.Finish(), number = *numbers.Finish(), image = *images.Finish();
  const auto plain = small_table();
  return arrow::Table::Make(
      arrow::schema({plain->schema()->field(0), arrow::field("n", number->type()),
                     arrow::field("image", image->type()), arrow::field("text", text->type())}),
      {plain->column(0), std::make_shared<arrow::ChunkedArray>(number),
       std::make_shared<arrow::ChunkedArray>(image), std::make_shared<arrow::ChunkedArray>(text)});
}

// Aborts on anything but rows or a Status.
inline void takes_arrow(std::string_view bytes) {
  for (const bool tokens : {false, true}) {
    runtime::MemoryStorage storage;
    storage.put("mem:/a.arrow", std::string(bytes));
    const auto index = build(storage, foreign_arrow_source(tokens));
    if (!index.ok()) continue;
    const auto reader = (*index)->reader();
    OVERLORD_CHECK(reader.ok(), "a fresh index has a reader");
    for (uint32_t block = 0; block < (*index)->manifest().blocks.size(); ++block) {
      const BlockRequest request{block, {}, nullptr};
      // Columns of rows are looked at here for the first time: they may be refused.
      static_cast<void>(read_block(storage, **index, **reader, request).ok());
      const auto blobs = read_media(storage, (*index)->manifest(), **reader, request);
      OVERLORD_CHECK(blobs.ok(), "indexed media");
    }
  }
}

}  // namespace overlord::columnar
