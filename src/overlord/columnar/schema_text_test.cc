#include "overlord/columnar/schema_text.h"

#include <arrow/api.h>
#include <arrow/io/memory.h>
#include <gtest/gtest.h>
#include <parquet/arrow/writer.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "overlord/base/rng.h"
#include "overlord/columnar/reading_test.h"

namespace overlord::columnar {
namespace {

model::Source chat_source(model::Format format) {
  model::Source source;
  source.name = "sft";
  source.format = format;
  source.files = {format == model::Format::kJsonl ? "mem://a.jsonl" : "mem://a.parquet"};
  source.text_column = "messages";
  source.vocabulary = 1000;
  source.schema.text = model::RowText::kRecord;
  source.schema.columns = {"messages", "tools"};
  source.schema.required = source.schema.expected = 1;
  return source;
}

model::Source interleaved_source(model::Format format) {
  model::Source source = chat_source(format);
  source.text_column = "texts";
  source.schema.text = model::RowText::kInterleaved;
  source.schema.columns = {"texts", "images"};
  source.schema.required = source.schema.expected = 2;
  source.schema.marker = "<image>";
  source.schema.separator = "|";
  return source;
}

AllRows rows_of(const model::Source& source, const std::string& bytes) {
  runtime::MemoryStorage storage;
  storage.put(source.files[0], bytes);
  const auto index = build(storage, source);
  EXPECT_TRUE(index.ok()) << index.status().message();
  if (!index.ok()) return {};
  const auto all = read_all(storage, **index);
  EXPECT_TRUE(all.ok()) << all.status().message();
  return all.ok() ? *all : AllRows();
}

std::string parquet_bytes(const std::shared_ptr<arrow::Table>& table) {
  auto sink = *arrow::io::BufferOutputStream::Create();
  EXPECT_TRUE(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), sink, 1 << 20).ok());
  return (*sink->Finish())->ToString();
}

using MaybeTexts = std::vector<std::optional<std::string>>;

std::shared_ptr<arrow::Array> text_lists(const std::vector<MaybeTexts>& rows,
                                         const std::shared_ptr<arrow::DataType>& item) {
  auto builder = *arrow::MakeBuilder(arrow::list(item));
  auto& lists = static_cast<arrow::ListBuilder&>(*builder);
  for (const MaybeTexts& row : rows) {
    EXPECT_TRUE(lists.Append().ok());
    for (const auto& text : row) {
      auto* values = lists.value_builder();
      if (item->id() == arrow::Type::STRUCT && text) {
        auto& pair = static_cast<arrow::StructBuilder&>(*values);
        EXPECT_TRUE(pair.Append().ok());
        EXPECT_TRUE(static_cast<arrow::BinaryBuilder*>(pair.field_builder(0))->Append(*text).ok());
        EXPECT_TRUE(pair.field_builder(1)->AppendNull().ok());
      } else if (text) {
        EXPECT_TRUE(static_cast<arrow::BinaryBuilder&>(*values).Append(*text).ok());
      } else {
        EXPECT_TRUE(values->AppendNull().ok());
      }
    }
  }
  return *builder->Finish();
}

TEST(SchemaText, StringsAreEscapedAsJsonWants) {
  std::string out;
  append_json_string("a\"b\\c\n\x01 \xC3\xBC", &out);
  EXPECT_EQ(out, "\"a\\\"b\\\\c\\u000a\\u0001 \xC3\xBC\"");
}

TEST(SchemaText, NumbersReadBackAsTheyWere) {
  constexpr uint64_t kKey = 7;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t bits = random_u64(kKey, static_cast<uint64_t>(i));
    double value = 0;
    std::memcpy(&value, &bits, sizeof(value));
    std::string out;
    if (!append_json_number(value, &out)) {
      EXPECT_FALSE(std::isfinite(value));
      continue;
    }
    EXPECT_EQ(std::stod(out), value) << out;
  }
  std::string out;
  EXPECT_TRUE(append_json_number(2.0, &out));
  EXPECT_EQ(out, "2.0");
  EXPECT_FALSE(append_json_number(std::numeric_limits<double>::quiet_NaN(), &out));
}

TEST(SchemaText, ALineGivesItsWantedFieldsInOneForm) {
  const AllRows all = rows_of(chat_source(model::Format::kJsonl),
                              "{\"id\": 3, \"tools\" : [ 1 , 2.50, true, null], \"messages\": [ "
                              "{\"role\": \"us\\u0065r\"} ] }\n"
                              "{\"messages\": []}\n"
                              "{\"tools\": []}\n"
                              "{\"messages\": [], \"messages\": []}\n"
                              "{\"messages\": " +
                                  std::string(80, '[') + std::string(80, ']') + "}\n");
  ASSERT_EQ(all.texts.size(), 5u);
  EXPECT_EQ(all.texts[0], "{\"messages\":[{\"role\":\"user\"}],\"tools\":[1,2.5,true,null]}");
  EXPECT_EQ(all.texts[1], "{\"messages\":[]}");
  ASSERT_EQ(all.bad.size(), 3u);
  EXPECT_TRUE(contains(all.bad[0].second, "row 2")) << all.bad[0].second;
  EXPECT_TRUE(contains(all.bad[0].second, "is missing"));
  EXPECT_TRUE(contains(all.bad[1].second, "appears twice"));
  EXPECT_TRUE(contains(all.bad[2].second, "64 deep"));
  for (size_t row : {2, 3, 4}) EXPECT_EQ(all.texts[row], "");
}

TEST(SchemaText, ARowOverTheLimitIsBad) {
  model::Source source = interleaved_source(model::Format::kParquet);
  source.limits.max_document_bytes = 10;
  const auto table =
      arrow::Table::Make(arrow::schema({arrow::field("texts", arrow::list(arrow::utf8())),
                                        arrow::field("images", arrow::list(arrow::utf8()))}),
                         {text_lists({{"0123456789"}, {"0123456789a"}}, arrow::utf8()),
                          text_lists({{std::nullopt}, {std::nullopt}}, arrow::utf8())});
  const AllRows all = rows_of(source, parquet_bytes(table));
  EXPECT_EQ(all.texts, (std::vector<std::string>{"0123456789", ""}));
  ASSERT_EQ(all.bad.size(), 1u);
  EXPECT_TRUE(contains(all.bad[0].second, "limits.max_document")) << all.bad[0].second;
}

// The same rows out of lines, of columns of paths, and of columns of struct{bytes, path}.
TEST(SchemaText, InterleavedRowsAreTheSameOutOfEveryFile) {
  const std::optional<std::string> none;
  const std::vector<MaybeTexts> texts = {{"a", none, "b"}, {none},        {"x", "y"}, {"x"},
                                         {none},           {"a <image>"}, {"\xff"},   {}};
  const std::vector<MaybeTexts> images = {
      {none, "1", none}, {"2"}, {none}, {"3"}, {none}, {none}, {none}, {}};
  const std::vector<std::string> wanted = {"a|<image>|b", "<image>", "", "", "", "", "", ""};
  const std::vector<std::string> reasons = {
      "has 2 places and", "has both a text and an image", "has neither", "has the marker", "UTF-8",
      "no text"};
  const auto check = [&](const AllRows& all, bool utf8) {
    EXPECT_EQ(all.texts, wanted);
    ASSERT_EQ(all.bad.size(), reasons.size());
    for (size_t i = 0; i < reasons.size(); ++i) {
      if (i == 4 && !utf8) continue;  // a line of broken UTF-8 is no JSON at all
      EXPECT_TRUE(contains(all.bad[i].second, reasons[i])) << all.bad[i].second;
      EXPECT_EQ(all.bad[i].first, i + 2);
    }
  };
  for (const auto& item : {arrow::utf8(), arrow::struct_({arrow::field("bytes", arrow::binary()),
                                                          arrow::field("path", arrow::utf8())})}) {
    const auto table =
        arrow::Table::Make(arrow::schema({arrow::field("texts", arrow::list(arrow::utf8())),
                                          arrow::field("images", arrow::list(item))}),
                           {text_lists(texts, arrow::utf8()), text_lists(images, item)});
    check(rows_of(interleaved_source(model::Format::kParquet), parquet_bytes(table)), true);
  }
  std::string lines;
  const auto list = [](const MaybeTexts& row) {
    std::string out;
    for (const auto& text : row) {
      out += (out.empty() ? "" : ",") + (text ? "\"" + *text + "\"" : std::string("null"));
    }
    return "[" + out + "]";
  };
  for (size_t i = 0; i < texts.size(); ++i) {
    lines += "{\"texts\":" + list(texts[i]) + ",\"images\":" + list(images[i]) + "}\n";
  }
  check(rows_of(interleaved_source(model::Format::kJsonl), lines), false);
}

TEST(SchemaText, MegatronHasNoSuchRows) {
  runtime::MemoryStorage storage;
  model::Source source = chat_source(model::Format::kMegatron);
  source.files = {"mem://a.bin"};
  source.text_column.clear();
  storage.put("mem://a.bin", "");
  const auto index = build(storage, source);
  ASSERT_FALSE(index.ok());
  EXPECT_TRUE(contains(index.status().message(), "no chat and interleaved rows"));
}

}  // namespace
}  // namespace overlord::columnar
