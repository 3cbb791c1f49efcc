#include "overlord/columnar/formats/rows/row_numbers.h"

#include <gtest/gtest.h>

#include "overlord/columnar/reading_test.h"

namespace overlord::columnar {
namespace {

model::Source rows_source(const std::string& uri) {
  model::Source source;
  source.name = "own";
  source.format = model::Format::kRows;
  source.files = {uri};
  source.text_column = "text";
  source.transform = {"mine:Rows", "1"};
  return source;
}

TEST(RowNumbers, RowsAreTheirNumbers) {
  runtime::MemoryStorage storage;
  const auto index = build(storage, rows_source("rows://mine:Rows@1/130"));
  ASSERT_TRUE(index.ok()) << index.status().message();
  EXPECT_EQ((*index)->manifest().blocks.size(), 3u);
  const auto rows = read_all(storage, **index);
  ASSERT_TRUE(rows.ok()) << rows.status().message();
  ASSERT_EQ(rows->texts.size(), 130u);
  for (size_t row = 0; row < 130; ++row) EXPECT_EQ(rows->texts[row], std::to_string(row));
  EXPECT_TRUE((*index)->verify(storage).ok());
  // Another count is another thing under the same reader.
  model::Source other = rows_source("rows://mine:Rows@1/131");
  const auto bytes = build_index_bytes(storage, nullptr, rows_source("rows://mine:Rows@1/130"), {},
                                       nullptr, {});
  const auto opened = SourceIndex::from_bytes(*bytes, other);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ((*opened)->verify(storage).code(), Code::kSourceChanged);
}

TEST(RowNumbers, WhatIsNoCountIsRefused) {
  runtime::MemoryStorage storage;
  for (const char* uri : {"rows://mine:Rows@1/", "rows://mine:Rows@1/x", "rows://mine:Rows@1/1x",
                          "rows://mine:Rows@1/99999999999999999999", "rows://mine:Rows@1/0"}) {
    EXPECT_FALSE(build(storage, rows_source(uri)).ok()) << uri;
  }
  model::Source bare = rows_source("rows://mine:Rows@1/3");
  bare.transform = {};
  EXPECT_TRUE(contains(build(storage, bare).status().message(), "reader"));
}

TEST(RowNumbers, VeryManyHaveFewBlocks) {
  runtime::MemoryStorage storage;
  const auto index = build(storage, rows_source("rows://mine:Rows@1/20000000"));
  ASSERT_TRUE(index.ok()) << index.status().message();
  EXPECT_LE((*index)->manifest().blocks.size(), 100'001u);
}

}  // namespace
}  // namespace overlord::columnar
