#include "overlord/columnar/formats/csv/csv_reader.h"

#include <gtest/gtest.h>

#include <random>

#include "overlord/columnar/formats/csv/csv_text.h"
#include "overlord/columnar/reading_test.h"

namespace overlord::columnar {
namespace {

using Fields = std::vector<std::string>;

// Records of a text that is given in pieces of this size.
Fields records(const std::string& text, size_t piece, uint64_t offset = 0) {
  Fields found;
  uint64_t begin = 0;
  CsvScanner scanner(
      ',', [&](uint64_t at) { begin = at - offset; },
      [&](uint64_t, uint64_t size) { found.push_back(text.substr(begin, size)); });
  for (size_t at = 0; at < text.size(); at += piece) {
    scanner.add(std::string_view(text).substr(at, piece), offset + at);
  }
  if (scanner.rest() > 0) found.push_back(text.substr(begin, scanner.rest()));
  return found;
}

TEST(CsvText, QuotesHoldLineEndsAndDelimiters) {
  const std::string text =
      "\xef\xbb\xbfid,text\r\n1,\"a\nb, \"\"c\"\"\"\r\n\r\n\n2,it is 5\" wide\n\"3\",";
  const Fields wanted = {"id,text\r", "1,\"a\nb, \"\"c\"\"\"\r", "2,it is 5\" wide", "\"3\","};
  for (const size_t piece : {size_t{1}, size_t{2}, size_t{5}, text.size()}) {
    EXPECT_EQ(records(text, piece), wanted) << piece;
  }
  Fields fields;
  EXPECT_EQ(split_csv(wanted[1], ',', &fields), "");
  EXPECT_EQ(fields, (Fields{"1", "a\nb, \"c\""}));
  EXPECT_EQ(split_csv(wanted[2], ',', &fields), "");
  EXPECT_EQ(fields, (Fields{"2", "it is 5\" wide"}));
  EXPECT_EQ(split_csv(wanted[3], ',', &fields), "");
  EXPECT_EQ(fields, (Fields{"3", ""}));
  EXPECT_EQ(split_csv("a\tb,c", '\t', &fields), "");
  EXPECT_EQ(fields, (Fields{"a", "b,c"}));
  EXPECT_TRUE(contains(split_csv("\"a", ',', &fields), "not closed"));
  EXPECT_TRUE(contains(split_csv("\"a\"b,c", ',', &fields), "behind its closing quote"));
}

TEST(CsvText, AnyTextIsPartedTheSameWhereverPiecesEnd) {
  std::mt19937 random(7);
  const std::string letters = "\"\",\n\ra1 ";
  for (int i = 0; i < 3000; ++i) {
    std::string text;
    for (unsigned n = random() % 30; n > 0; --n) text += letters[random() % letters.size()];
    const Fields whole = records(text, text.size() + 1);
    EXPECT_EQ(records(text, 1 + random() % 5), whole) << text;
    // What was parted once is parted into the same records again.
    std::string joined;
    for (const std::string& record : whole) joined += record + "\n";
    if (text.find('"') == std::string::npos) {
      EXPECT_EQ(records(joined, 3, 1024), whole) << text;
    }
    Fields fields;
    for (const std::string& record : whole) split_csv(record, ',', &fields);
  }
}

model::Source table_source(const std::string& file) {
  model::Source source;
  source.name = "table";
  source.format = model::Format::kCsv;
  source.files = {file};
  source.text_column = "caption";
  source.metadata_columns = {"width"};
  source.media = {{"image", {"file_name"}}};
  return source;
}

TEST(Csv, RowsAreTextsPathsAndNumbers) {
  runtime::MemoryStorage storage;
  storage.put("mem:/d/a.csv",
              "width,caption,file_name\n3,\"one, two\",x.png\n,\"a\nb\",\n4,c,d/y.png\n");
  storage.put("mem:/d/x.png", "X");
  storage.put("mem:/d/d/y.png", "YY");
  IndexOptions options;
  options.block_rows = 2;
  const auto index = build(storage, table_source("mem:/d/a.csv"), options);
  ASSERT_TRUE(index.ok()) << index.status().message();
  EXPECT_EQ((*index)->manifest().blocks.size(), 2u);
  EXPECT_EQ(read_all(storage, **index)->texts, (Fields{"one, two", "a\nb", "c"}));
  const auto& columns = (*index)->manifest().columns;
  EXPECT_EQ(std::vector<uint32_t>(columns[0].begin(), columns[0].end()),
            (std::vector<uint32_t>{3, 0, 4}));
  const auto reader = (*index)->reader();
  const auto last = read_media(storage, (*index)->manifest(), **reader, {1, {}});
  EXPECT_EQ(texts_of((*last)[0]), Fields{"YY"});
}

TEST(Csv, EveryFaultOfARecordIsABadRow) {
  runtime::MemoryStorage storage;
  storage.put("mem:/d/x.png", "X");
  storage.put("mem:/d/a.csv", std::string("caption,width,file_name\n") +
                                  "good,1,x.png\n"
                                  "short,1\n"
                                  "long,1,x.png,more\n"
                                  ",1,x.png\n"
                                  "number,-1,x.png\n"
                                  "word,many,x.png\n"
                                  "utf \xff,1,x.png\n"
                                  "\"behind\"x,1,x.png\n"
                                  "out,1,../x.png\n"
                                  "gone,1,y.png\n"
                                  "\"open,1,x.png\n");
  const auto index = build(storage, table_source("mem:/d/a.csv"));
  ASSERT_TRUE(index.ok()) << index.status().message();
  EXPECT_EQ((*index)->manifest().rows, 11u);
  const auto rows = read_all(storage, **index);
  std::map<uint64_t, std::string> bad(rows->bad.begin(), rows->bad.end());
  for (const auto& [row, reason] : (*index)->bad_rows()) bad[row] = reason;
  const char* words[] = {"has 2 fields, its header has 3",
                         "has 4 fields",
                         "empty text in column 'caption'",
                         "metadata column 'width' is '-1'",
                         "metadata column 'width' is 'many'",
                         "not valid UTF-8",
                         "behind its closing quote",
                         "leads out of it",
                         "no file 'y.png'",
                         "a quote is not closed"};
  ASSERT_EQ(bad.size(), 10u);
  for (size_t i = 0; i < 10; ++i) EXPECT_TRUE(contains(bad[i + 1], words[i])) << bad[i + 1];
}

TEST(Csv, ShardsMayHaveTheirColumnsInAnyOrder) {
  runtime::MemoryStorage storage;
  storage.put("mem:/d/x.png", "X");
  storage.put("mem:/d/a.csv", "caption,width,file_name\na,1,x.png\n");
  storage.put("mem:/d/b.tsv", "x\tfile_name\twidth\tcaption\n\t\t2\tb,c\n");
  model::Source source = table_source("mem:/d/a.csv");
  source.files.push_back("mem:/d/b.tsv");
  const auto index = build(storage, source);
  ASSERT_TRUE(index.ok()) << index.status().message();
  EXPECT_EQ(read_all(storage, **index)->texts, (Fields{"a", "b,c"}));
}

TEST(Csv, HeadersThatLackAColumnAreRefusedByName) {
  const std::pair<const char*, const char*> cases[] = {
      {"text,width,file_name\nx,1,\n", "no column 'caption'; its header has 'text', 'width'"},
      {"caption,width\nx,1\n", "no column 'file_name'"},
      {"caption,file_name\nx,1\n", "no column 'width'"},
      {"caption,width,file_name,caption\n", "column 'caption' twice"},
      {"\"caption,width,file_name\nx", "a quote is not closed"},
      {"\n\n", "has no header"}};
  for (const auto& [text, words] : cases) {
    runtime::MemoryStorage storage;
    storage.put("mem:/d/a.csv", text);
    const auto index = build(storage, table_source("mem:/d/a.csv"));
    ASSERT_FALSE(index.ok()) << text;
    EXPECT_TRUE(contains(index.status().message(), words)) << index.status().message();
    EXPECT_TRUE(contains(index.status().message(), "mem:/d/a.csv")) << index.status().message();
  }
  runtime::MemoryStorage storage;
  storage.put("mem:/d/a.csv", std::string(2 << 20, 'x'));
  EXPECT_TRUE(contains(build(storage, table_source("mem:/d/a.csv")).status().message(), "1 MiB"));
}

}  // namespace
}  // namespace overlord::columnar
