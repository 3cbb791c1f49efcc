#include "overlord/columnar/formats/jsonl/json_elements.h"

#include <gtest/gtest.h>

#include <random>

#include "overlord/columnar/formats/tar/tar_writer_test.h"
#include "overlord/columnar/reading_test.h"

namespace overlord::columnar {
namespace {

// Elements of a text that is given in pieces of this size; empty where it is refused.
std::vector<std::string> elements(const std::string& text, size_t piece, bool inside = false) {
  std::vector<std::string> found;
  uint64_t begin = 0;
  ElementScanner scanner(
      inside, [&](uint64_t offset) { begin = offset; },
      [&](uint64_t offset) { found.push_back(text.substr(begin, offset - begin)); });
  for (size_t at = 0; at < text.size(); at += piece) {
    if (!scanner.add(std::string_view(text).substr(at, piece), at).ok()) return {};
  }
  return scanner.finish(text.size()).ok() ? found : std::vector<std::string>();
}

TEST(JsonElements, AreFoundWhereverPiecesEnd) {
  const std::string text =
      " [ {\"a\": \"x]},{\\\"\"} ,\n[1, [2]],-1.5e3,true , \"a,]\\\\\",{}]\r\n ";
  const std::vector<std::string> wanted = {
      "{\"a\": \"x]},{\\\"\"}", "[1, [2]]", "-1.5e3", "true", "\"a,]\\\\\"", "{}"};
  for (const size_t piece : {size_t{1}, size_t{2}, size_t{3}, size_t{7}, text.size()}) {
    EXPECT_EQ(elements(text, piece), wanted) << piece;
  }
  // Any run of whole elements is parted the same way.
  const size_t first = text.find('{'), last = text.find("true") + 4;
  EXPECT_EQ(elements(text.substr(first, last - first), 3, true),
            std::vector<std::string>(wanted.begin(), wanted.begin() + 4));
}

TEST(JsonElements, AnArrayHasAnEndAndNothingBehindIt) {
  EXPECT_TRUE(elements("[{}", 8).empty());
  EXPECT_TRUE(elements("[{\"a\": \"]", 8).empty());
  EXPECT_TRUE(elements("[{}] x", 8).empty());
  EXPECT_EQ(elements("[{}]\n", 8).size(), 1u);
}

TEST(JsonElements, AnyTextIsPartedOrRefused) {
  std::mt19937 random(5);
  const std::string letters = "[]{}\",\\: a1\n";
  for (int i = 0; i < 2000; ++i) {
    std::string text = "[";
    for (unsigned n = random() % 40; n > 0; --n) text += letters[random() % letters.size()];
    EXPECT_EQ(elements(text, 1), elements(text, 1 + random() % 9)) << text;
  }
}

model::Source named(const std::string& file, const std::string& root = "", bool many = false) {
  model::Source source;
  source.name = "named";
  source.format = model::Format::kJsonl;
  source.files = {file};
  source.text_column = "text";
  source.media = {{"image", {"images", "image"}, std::nullopt, many, root}};
  return source;
}

std::vector<std::vector<std::string>> blobs(runtime::Storage& storage, const SourceIndex& index) {
  std::vector<std::vector<std::string>> out;
  const auto reader = index.reader();
  for (uint32_t block = 0; block < index.manifest().blocks.size(); ++block) {
    const auto lists = read_media(storage, index.manifest(), **reader, {block, {}});
    EXPECT_TRUE(lists.ok()) << lists.status().message();
    if (!lists.ok()) continue;
    for (const auto& list : *lists) out.push_back(texts_of(list));
  }
  return out;
}

using Blobs = std::vector<std::vector<std::string>>;

TEST(NamedMedia, LinesAndElementsNameFiles) {
  const std::string rows[] = {R"({"text": "a", "image": "x.png"})",
                              R"({"text": "b", "image": null, "images": ["d/y.png", null]})",
                              R"({"text": "c"})", R"({"text": "d", "image": "gone.png"})"};
  std::string lines, array;
  for (const std::string& row : rows) {
    lines += row + "\n\n";
    array += (array.empty() ? "[" : ",") + row;
  }
  runtime::MemoryStorage storage;
  storage.put("mem:/d/lines.jsonl", lines);
  storage.put("mem:/d/array.json", array + "]");
  storage.put("mem:/d/x.png", "X");
  storage.put("mem:/d/d/y.png", "YY");
  IndexOptions options;
  options.block_rows = 3;
  for (const char* file : {"mem:/d/lines.jsonl", "mem:/d/array.json"}) {
    const auto index = build(storage, named(file), options);
    ASSERT_TRUE(index.ok()) << index.status().message();
    EXPECT_EQ(blobs(storage, **index), (Blobs{{"X"}, {"YY"}, {}, {}}));
    EXPECT_EQ(read_all(storage, **index)->texts, (std::vector<std::string>{"a", "b", "c", "d"}));
    const auto bad = (*index)->bad_rows();
    ASSERT_EQ(bad.size(), 1u);
    EXPECT_EQ(bad[0].first, 3u);
    EXPECT_TRUE(contains(bad[0].second, "no file 'gone.png' beside the shard")) << bad[0].second;
    const auto reader = (*index)->reader();
    const auto one = read_media(storage, (*index)->manifest(), **reader, {0, {1}});
    EXPECT_EQ(texts_of((*one)[0]), std::vector<std::string>{"YY"});
  }
}

TEST(NamedMedia, MembersOfATarAreReadByOffset) {
  TarWriter tar;
  tar.add("./x.png", "X");
  tar.add("d/y.png", std::string(1000, 'y'));
  runtime::MemoryStorage storage;
  storage.put("mem:/m.tar", tar.bytes + std::string(1024, '\0'));
  storage.put("mem:/a.jsonl",
              "{\"text\": \"a\", \"images\": [\"x.png\", \"d/y.png\"]}\n"
              "{\"text\": \"b\", \"image\": \"x\"}\n");
  const model::Source source = named("mem:/a.jsonl", "mem:/m.tar", true);
  const auto index = build(storage, source);
  ASSERT_TRUE(index.ok()) << index.status().message();
  EXPECT_EQ(blobs(storage, **index), (Blobs{{"X", std::string(1000, 'y')}, {}}));
  EXPECT_TRUE(contains((*index)->bad_rows()[0].second, "in 'mem:/m.tar'"));
  // A tar that was written again is no longer the one.
  storage.put("mem:/m.tar", tar.bytes + std::string(512, '\0'));
  const auto reader = (*index)->reader();
  EXPECT_EQ(read_media(storage, (*index)->manifest(), **reader, {0, {}}).status().code(),
            Code::kSourceChanged);
  storage.put("mem:/m.tar", "no tar at all" + std::string(600, 'x'));
  const auto refused = build(storage, source);
  EXPECT_TRUE(contains(refused.status().message(), "root 'mem:/m.tar'"));
}

TEST(NamedMedia, ARowTooLongToReadHasNone) {
  runtime::MemoryStorage storage;
  storage.put("mem:/x.png", "X");
  storage.put("mem:/a.jsonl", "{\"text\": \"" + std::string(400, 'a') +
                                  "\"}\n{\"text\": \"b\", \"image\": \"x.png\"}\n");
  model::Source source = named("mem:/a.jsonl");
  source.limits.max_document_bytes = 100;
  const auto index = build(storage, source);
  ASSERT_TRUE(index.ok()) << index.status().message();
  EXPECT_EQ(blobs(storage, **index), (Blobs{{}, {"X"}}));
}

// What an index says of places is checked, whatever it says.
TEST(NamedMedia, DamagedPlacesAreNamed) {
  TarWriter tar;
  tar.add("x.png", "X");
  runtime::MemoryStorage storage;
  storage.put("mem:/m.tar", tar.bytes + std::string(1024, '\0'));
  storage.put("mem:/a.jsonl", "{\"text\": \"a\", \"image\": \"x.png\"}\n");
  const model::Source source = named("mem:/a.jsonl", "mem:/m.tar");
  const auto index = build(storage, source);
  ASSERT_TRUE(index.ok()) << index.status().message();
  // The same index read by a source whose paths lie in a folder: places of members are none.
  model::Source other = source;
  other.media[0].root = "mem:/";
  EXPECT_EQ(
      SourceIndex::from_bytes(*build_index_bytes(storage, nullptr, source, {}, nullptr, {}), other)
          .status()
          .code(),
      Code::kStateMismatch);
}

}  // namespace
}  // namespace overlord::columnar
