#include "overlord/columnar/formats/jsonl/jsonl_reader.h"

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <random>

#include "overlord/columnar/reading_test.h"
#include "overlord/columnar/streams/text_stream.h"

namespace overlord::columnar {
namespace {

using testing::CorpusSpec;

std::string gzip(const std::string& text, int level = 6) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

// Lines of words that compress like text, so that deflate uses real blocks.
std::string wordy_lines(size_t lines, std::vector<std::string>* texts) {
  static const char* words[] = {"the",   "loader", "reads",   "shards", "of",   "tokens", "and",
                                "packs", "bins",   "quickly", "every",  "step", "again"};
  std::mt19937 random(3);
  std::string out;
  for (size_t i = 0; i < lines; ++i) {
    std::string text = "line " + std::to_string(i);
    const size_t count = 5 + random() % 200;
    for (size_t w = 0; w < count; ++w)
      text += std::string(" ") + words[random() % 13] +
              (random() % 5 == 0 ? std::to_string(random()) : "");
    texts->push_back(text);
    out += "{\"id\": " + std::to_string(i) + ", \"text\": \"" + text + "\"}\n";
  }
  return out;
}

struct Lines {
  runtime::MemoryStorage storage;
  model::Source source;

  explicit Lines(const std::string& bytes, const std::string& uri = "mem:/a.jsonl") {
    storage.put(uri, bytes);
    source.name = "web";
    source.format = model::Format::kJsonl;
    source.files = {uri};
    source.text_column = "text";
  }
  void use_tokens() {
    source.text_column.clear();
    source.token_column = "tokens";
  }
  Result<AllRows> read(const IndexOptions& options = {}) {
    OVERLORD_TRY(const auto index, build(storage, source, options));
    return read_all(storage, *index);
  }
};

class JsonlCodings : public ::testing::TestWithParam<int> {
 protected:
  // The same text in the ways a corpus may come.
  static std::pair<std::string, std::string> coded(int how, const std::string& text) {
    const size_t third = text.size() / 3;
    const std::string a = text.substr(0, third), b = text.substr(third, third),
                      c = text.substr(2 * third);
    switch (how) {
      case 0:
        return {"mem:/a.jsonl", text};
      case 1:
        return {"mem:/a.jsonl.gz", gzip(text)};
      case 2:
        return {"mem:/a.jsonl.gz", gzip(a) + gzip("") + gzip(b) + gzip(c)};
      case 3:
        return {"mem:/a.jsonl.gz", gzip(text, 0) + std::string(100, '\0')};
      case 4:
        return {"mem:/a.jsonl.zst", zstd(text)};
      case 5:
        return {"mem:/a.jsonl.zst", zstd(a) + zstd(b) + zstd("") + zstd(c)};
      default: {
        // A skippable frame, as the seekable format ends with.
        const std::string skippable("\x50\x2a\x4d\x18\x03\x00\x00\x00xyz", 11);
        return {"mem:/a.jsonl.zst", zstd(a) + skippable + zstd(b + c) + skippable};
      }
    }
  }
};

TEST_P(JsonlCodings, EveryBlockReadsBackAlone) {
  std::vector<std::string> texts;
  const std::string text = wordy_lines(1200, &texts);
  const auto [uri, bytes] = coded(GetParam(), text);
  for (const uint64_t block_bytes : {uint64_t{3000}, uint64_t{200'000}, uint64_t{1} << 30}) {
    Lines lines(bytes, uri);
    IndexOptions options;
    options.block_bytes = block_bytes;
    options.block_rows = 300;
    const auto index = build(lines.storage, lines.source, options);
    ASSERT_TRUE(index.ok()) << index.status().message();
    EXPECT_EQ((*index)->manifest().meta_origin, model::MetaOrigin::kDecode);
    const auto all = read_all(lines.storage, **index, runtime::BufferPool::make(1 << 20));
    ASSERT_TRUE(all.ok()) << all.status().message();
    EXPECT_EQ(all->texts, texts);
    EXPECT_TRUE(all->bad.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(All, JsonlCodings, ::testing::Range(0, 7));

TEST(JsonlReader, GzipIsEnteredInTheMiddle) {
  std::vector<std::string> texts;
  const std::string text = wordy_lines(20'000, &texts);
  const std::string bytes = gzip(text);
  Lines lines(bytes, "mem:/a.jsonl.gz");
  const auto index = build(lines.storage, lines.source);
  ASSERT_TRUE(index.ok()) << index.status().message();
  const auto reader = (*index)->reader();
  const auto last = static_cast<uint32_t>((*index)->manifest().blocks.size() - 1);
  ASSERT_GT(last, 5u);
  const auto ranges = (*reader)->ranges({last, {}});
  EXPECT_GT((*ranges)[0].offset, bytes.size() / 2);
  EXPECT_LT((*ranges)[0].size_bytes, bytes.size() / 4);
  const auto rows = read_block(lines.storage, **index, **reader, {last, {}});
  ASSERT_TRUE(rows.ok());
  EXPECT_LT(rows->skipped_bytes, 1u << 20);
  EXPECT_LT((*index)->mapped_bytes(), text.size() / 20);  // windows are few and deflated
}

TEST(JsonlReader, ALargeZstdFrameIsEnteredAtItsStartAndCounted) {
  std::vector<std::string> texts;
  const std::string text = wordy_lines(5000, &texts);
  Lines lines(zstd(text), "mem:/a.jsonl.zst");
  const auto index = build(lines.storage, lines.source);
  const auto reader = (*index)->reader();
  const auto last = static_cast<uint32_t>((*index)->manifest().blocks.size() - 1);
  const auto rows = read_block(lines.storage, **index, **reader, {last, {}});
  ASSERT_TRUE(rows.ok());
  EXPECT_EQ(rows->skipped_bytes, (*index)->manifest().blocks[last].offset);
  lines.source.limits.max_block_bytes = 1 << 20;
  const Status status = build(lines.storage, lines.source).status();
  EXPECT_EQ(status.code(), Code::kBadData);
  EXPECT_TRUE(contains(status.message(), "split -C")) << status.message();
}

TEST(JsonlReader, BlocksFollowZstdFramesThatEndWithALine) {
  std::vector<std::string> texts;
  const std::string text = wordy_lines(1000, &texts);
  std::string frames;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', std::min(at + 70'000, text.size() - 1)) + 1;
    frames += zstd(text.substr(at, end - at));
    at = end;
  }
  Lines lines(frames, "mem:/a.jsonl.zst");
  IndexOptions options;
  options.block_bytes = 100'000;
  const auto index = build(lines.storage, lines.source, options);
  ASSERT_TRUE(index.ok()) << index.status().message();
  const auto reader = (*index)->reader();
  for (uint32_t block = 0; block < (*index)->manifest().blocks.size(); ++block) {
    const auto rows = read_block(lines.storage, **index, **reader, {block, {}});
    ASSERT_TRUE(rows.ok());
    EXPECT_EQ(rows->skipped_bytes, 0u);
  }
}

TEST(JsonlReader, AcceptsCrLfBlankLinesBomAndAMissingNewline) {
  Lines lines("\xef\xbb\xbf{\"text\":\"a\"}\r\n\r\n  \t\n{\"text\":\"b\"}\n\n{\"text\":\"c\"}");
  const auto all = lines.read();
  ASSERT_TRUE(all.ok()) << all.status().message();
  EXPECT_EQ(all->texts, (std::vector<std::string>{"a", "b", "c"}));
  IndexOptions one_row;
  one_row.block_rows = 1;
  EXPECT_EQ(lines.read(one_row)->texts, all->texts);
  Lines bom_only("\xef\xbb\xbf\n{\"text\":\"b\"}");
  EXPECT_EQ(bom_only.read()->texts, std::vector<std::string>{"b"});
  Lines half_a_bom("\xef\xbb\n{\"text\":\"b\"}");  // is no mark, and must not vanish
  EXPECT_EQ(half_a_bom.read()->bad.size(), 1u);
}

TEST(JsonlReader, FaultsOfALineAreBadRowsAndTheOthersStay) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  const std::vector<std::pair<std::string, std::string>> faults = {
      {"{\"text\": \"x\"", "invalid JSON"},
      {"nonsense", "invalid JSON"},
      {"{\"text\": \"x\"} trailing", "invalid JSON"},
      {"{\"text\": \"x\", \"loss\": NaN}", "invalid JSON"},
      {"{\"loss\": Infinity, \"text\": \"x\"}", "invalid JSON"},
      {"{\"text\": \"x\", \"a\": 01}", "invalid JSON"},
      {"{\"text\": \"\\ud800\"}", "invalid JSON"},
      {"{\"text\": \"\xff\xfe\"}", "invalid JSON"},
      {std::string("{\"text\": \"a\0b\"}", 15), "invalid JSON"},
      {"{\"text\": \"x\", \"a\": " + deep + "}", "invalid JSON"},
      {"[\"text\"]", "not an object"},
      {"\"text\"", "not an object"},
      {"{\"other\": 1}", "field 'text' is missing"},
      {"{\"text\": 5}", "field 'text' is a number, not a string"},
      {"{\"text\": null}", "field 'text' is null"},
      {"{\"text\": \"a\", \"text\": \"b\"}", "appears twice"},
      {"{\"text\": \"\"}", "empty text"},
      {"{\"text\": \" \\n\\t\\u00a0\\u3000\"}", "empty text"},
  };
  std::string bytes = "{\"text\": \"first\"}\n";
  for (const auto& [line, reason] : faults) bytes += line + "\n{\"text\": \"good\"}\n";
  Lines lines(bytes);
  const auto all = lines.read();
  ASSERT_TRUE(all.ok()) << all.status().message();
  ASSERT_EQ(all->bad.size(), faults.size());
  for (size_t i = 0; i < faults.size(); ++i) {
    EXPECT_EQ(all->bad[i].first, 2 * i + 1);
    EXPECT_TRUE(contains(all->bad[i].second, faults[i].second)) << all->bad[i].second;
    EXPECT_TRUE(contains(all->bad[i].second,
                         "source 'web', shard 'mem:/a.jsonl', row " + std::to_string(2 * i + 1)))
        << all->bad[i].second;
    EXPECT_EQ(all->texts[2 * i + 1], "");
    EXPECT_EQ(all->texts[2 * i + 2], "good");
  }
}

TEST(JsonlReader, EscapesAreTextIncludingNul) {
  Lines lines("{\"text\": \"a\\u0000\\n\\\"\\ud83d\\ude00\"}\n");
  EXPECT_EQ(lines.read()->texts[0], std::string("a\0\n\"\xf0\x9f\x98\x80", 8));
}

TEST(JsonlReader, ALongLineIsABadRowThatIsNeverRead) {
  for (const bool compressed : {false, true}) {
    std::string filler;
    while (filler.size() < 3'000'000) filler += std::to_string(filler.size());
    const std::string text =
        "{\"text\": \"a\"}\n{\"text\": \"" + filler + "\"}\n{\"text\": \"c\"}\n";
    Lines lines(compressed ? gzip(text) : text, compressed ? "mem:/a.jsonl.gz" : "mem:/a.jsonl");
    lines.source.limits.max_document_bytes = 1000;
    const auto index = build(lines.storage, lines.source);
    ASSERT_TRUE(index.ok()) << index.status().message();
    ASSERT_EQ((*index)->bad_rows().size(), 1u);
    EXPECT_EQ((*index)->bad_rows()[0].first, 1u);
    const auto reader = (*index)->reader();
    EXPECT_TRUE((*reader)->ranges({1, {}})->empty());
    const auto all = read_all(lines.storage, **index);
    EXPECT_EQ(all->texts, (std::vector<std::string>{"a", "", "c"}));
    EXPECT_TRUE(contains(all->bad[0].second, "over limits.max_document (1000)"));
  }
}

TEST(JsonlReader, BrokenAndHostileCompressionIsRefused) {
  std::vector<std::string> texts;
  const std::string text = wordy_lines(3000, &texts);
  std::string flipped = gzip(text);
  flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 4);
  std::string flipped_zstd = zstd(text);
  flipped_zstd[flipped_zstd.size() / 2] =
      static_cast<char>(flipped_zstd[flipped_zstd.size() / 2] ^ 4);
  const std::string zeros(64 << 20, '\0');
  const std::vector<std::tuple<std::string, std::string, std::string>> cases = {
      {"mem:/a.jsonl.gz", gzip(text).substr(0, 5000), "cut short"},
      {"mem:/a.jsonl.gz", gzip(text) + "garbage", "garbage"},
      {"mem:/a.jsonl.gz", text, "broken"},
      {"mem:/a.jsonl.gz", "", "empty"},
      {"mem:/a.jsonl.gz", flipped, "broken"},
      {"mem:/a.jsonl.gz", gzip(zeros), "bomb"},
      {"mem:/a.jsonl.zst", zstd(text).substr(0, 5000), "cut short"},
      {"mem:/a.jsonl.zst", zstd(text) + "garbage", "broken"},
      {"mem:/a.jsonl.zst", flipped_zstd, ""},
      {"mem:/a.jsonl.zst", zstd(zeros), "bomb"},
      {"mem:/a.jsonl", gzip(text), "name it .jsonl.gz"},
      {"mem:/a.jsonl", zstd(text), "name it .jsonl.zst"},
  };
  for (const auto& [uri, bytes, says] : cases) {
    Lines lines(bytes, uri);
    const Status status = build(lines.storage, lines.source).status();
    if (says.empty()) continue;  // without a checksum zstd may not notice; it must not crash
    EXPECT_EQ(status.code(), Code::kBadData) << uri << " " << says;
    EXPECT_TRUE(contains(status.message(), says)) << status.message();
    EXPECT_TRUE(contains(status.message(), uri)) << status.message();
  }
}

TEST(JsonlReader, TokensAndMasks) {
  Lines lines(
      "{\"tokens\": [1, 2, 3], \"mask\": [0, 1, 1]}\n"
      "{\"mask\": [true, false], \"tokens\": [70000, 5]}\n");
  lines.use_tokens();
  lines.source.mask_column = "mask";
  const auto all = lines.read();
  ASSERT_TRUE(all.ok()) << all.status().message();
  EXPECT_EQ(all->tokens, (std::vector<std::vector<int64_t>>{{1, 2, 3}, {70000, 5}}));
  EXPECT_EQ(all->masks, (std::vector<std::vector<int>>{{0, 1, 1}, {1, 0}}));
}

TEST(JsonlReader, FaultsOfTokensAreBadRows) {
  const std::vector<std::pair<std::string, std::string>> faults = {
      {"{\"tokens\": []}", "empty array"},
      {"{\"tokens\": null}", "is null, not an array"},
      {"{\"tokens\": \"1 2\"}", "is a string"},
      {"{\"tokens\": [1, 2.5]}", "'tokens[1]' is a number, not an integer"},
      {"{\"tokens\": [1, null]}", "'tokens[1]' is null"},
      {"{\"tokens\": [-1]}", "token id -1"},
      {"{\"tokens\": [3000000000]}", "token id 3000000000"},
      {"{\"tokens\": [1, 500]}", "outside of the vocabulary of 500"},
      {"{\"tokens\": [1]}", "field 'mask' is missing"},
      {"{\"tokens\": [1], \"mask\": [1, 0]}", "another length"},
      {"{\"tokens\": [1, 2], \"mask\": [1]}", "another length"},
      {"{\"tokens\": [1], \"mask\": [2]}", "neither a boolean nor 0 or 1"},
      {"{\"tokens\": [1], \"mask\": 1}", "not an array"},
  };
  std::string bytes;
  for (size_t i = 0; i < faults.size(); ++i) {
    bytes += faults[i].first;
    if (i < 8) bytes.insert(bytes.size() - 1, ", \"mask\": [1, 1]");
    bytes += "\n{\"tokens\": [7, 8], \"mask\": [1, 0]}\n";
  }
  Lines lines(bytes);
  lines.use_tokens();
  lines.source.mask_column = "mask";
  lines.source.vocabulary = 500;
  const auto all = lines.read();
  ASSERT_TRUE(all.ok()) << all.status().message();
  ASSERT_EQ(all->bad.size(), faults.size());
  for (size_t i = 0; i < faults.size(); ++i) {
    EXPECT_EQ(all->bad[i].first, 2 * i);
    EXPECT_TRUE(contains(all->bad[i].second, faults[i].second)) << all->bad[i].second;
    EXPECT_EQ(all->tokens[2 * i + 1], (std::vector<int64_t>{7, 8}));
    EXPECT_EQ(all->masks[2 * i + 1], (std::vector<int>{1, 0}));
  }
}

TEST(JsonlReader, CorpusReadsBack) {
  CorpusSpec spec;
  const testing::Files files = testing::jsonl_token_corpus(spec);
  runtime::MemoryStorage storage;
  put_all(files, &storage);
  model::Source source;
  source.name = "demo";
  source.format = model::Format::kJsonl;
  source.files = testing::shard_uris(files);
  source.token_column = "tokens";
  IndexOptions options;
  options.lengths = true;
  const auto index = build(storage, source, options);
  ASSERT_TRUE(index.ok()) << index.status().message();
  EXPECT_EQ((*index)->manifest().meta_origin, model::MetaOrigin::kIndex);
  const auto all = read_all(storage, **index);
  for (uint64_t document = 0; document < 100; ++document) {
    const auto expected = testing::tokens_of(spec, document);
    EXPECT_EQ(all->tokens[document], std::vector<int64_t>(expected.begin(), expected.end()));
    EXPECT_EQ((*index)->manifest().lengths[document], expected.size());
  }
}

TEST(JsonlReader, EmptyFilesAndSourcesWithoutRows) {
  Lines lines("\n \n");
  EXPECT_TRUE(contains(lines.read().status().message(), "no rows"));
  lines.storage.put("mem:/b.jsonl", "{\"text\": \"b\"}");
  lines.storage.put("mem:/c.jsonl", "");
  lines.storage.put("mem:/d.jsonl", "");
  lines.source.files = {"mem:/a.jsonl", "mem:/b.jsonl", "mem:/c.jsonl", "mem:/d.jsonl"};
  EXPECT_EQ(lines.read()->texts, std::vector<std::string>{"b"});
}

TEST(JsonlReader, AFileThatIsNotTheIndexedOneIsFound) {
  Lines lines("{\"text\": \"a\"}\n{\"text\": \"b\"}\n");
  const auto index = build(lines.storage, lines.source);
  const auto reader = (*index)->reader();
  const std::string other = "{\"text\": \"a\"} {\"text\": \"b\"}\n";
  const auto rows = (*reader)->decode({0, {}}, {runtime::Bytes::copy_of(other)});
  EXPECT_EQ(rows.status().code(), Code::kBadData);
  EXPECT_TRUE(contains(rows.status().message(), "not what was indexed"));
}

// Restart points with hostile numbers: errors, never crashes.
TEST(JsonlReader, DamagedCompressedBytesNeverCrash) {
  std::vector<std::string> texts;
  const std::string text = wordy_lines(3000, &texts);
  std::mt19937 random(11);
  for (const bool gz : {true, false}) {
    const std::string bytes =
        gz ? gzip(text) : zstd(text.substr(0, 200'000)) + zstd(text.substr(200'000));
    Lines lines(bytes, gz ? "mem:/a.jsonl.gz" : "mem:/a.jsonl.zst");
    IndexOptions options;
    options.block_bytes = 50'000;
    const auto index = build(lines.storage, lines.source, options);
    ASSERT_TRUE(index.ok());
    const auto reader = (*index)->reader();
    for (int round = 0; round < 300; ++round) {
      const auto block = static_cast<uint32_t>(random() % (*index)->manifest().blocks.size());
      const auto ranges = (*reader)->ranges({block, {}});
      std::string piece = bytes.substr((*ranges)[0].offset, (*ranges)[0].size_bytes);
      for (int i = 0; i < 3; ++i) piece[random() % piece.size()] = static_cast<char>(random());
      const auto rows = (*reader)->decode({block, {}}, {runtime::Bytes::copy_of(piece)});
      static_cast<void>(rows.ok());
    }
  }
}

}  // namespace
}  // namespace overlord::columnar
