#include "overlord/columnar/formats/tokens/raw_tokens.h"

#include <gtest/gtest.h>

#include "overlord/base/bytes.h"
#include "overlord/columnar/formats/tokens/raw_layout.h"
#include "overlord/columnar/reading_test.h"

namespace overlord::columnar {
namespace {

using model::DocumentCut;

std::string numbers16(const std::vector<uint16_t>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(uint16_t)};
}

std::string numpy(const std::string& dict, const std::string& values) {
  const std::string header = dict + std::string(64 - (dict.size() + 10) % 64, ' ');
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(header.size() & 255);
  bytes += static_cast<char>(header.size() >> 8);
  return bytes + header + values;
}

struct RawFile {
  runtime::MemoryStorage storage;
  model::Source source;

  explicit RawFile(const std::string& bytes, const std::string& uri = "mem:/a.npy") {
    storage.put(uri, bytes);
    source.name = "small";
    source.format = model::Format::kTokens;
    source.files = {uri};
    source.raw = {Element::kU16, DocumentCut::kEnd, 9};
    source.vocabulary = 100;
  }
  std::vector<std::vector<int64_t>> rows(const IndexOptions& options = {}) {
    const auto index = build(storage, source, options);
    if (!index.ok()) ADD_FAILURE() << index.status().message();
    return index.ok() ? read_all(storage, **index)->tokens : std::vector<std::vector<int64_t>>();
  }
  std::string refusal() { return build(storage, source).status().message(); }
};

using TokenLists = std::vector<std::vector<int64_t>>;

TEST(RawTokens, DocumentsHaveTheirMarks) {
  RawFile small(numbers16({1, 2, 9, 3, 9, 9, 4}));
  EXPECT_EQ(small.rows(), (TokenLists{{1, 2, 9}, {3, 9}, {9}, {4}}));
  small.source.raw.cut = DocumentCut::kBegin;
  EXPECT_EQ(small.rows(), (TokenLists{{1, 2}, {9, 3}, {9}, {9, 4}}));
  small.source.raw = {Element::kU16, DocumentCut::kLength, 3};
  EXPECT_EQ(small.rows(), (TokenLists{{1, 2, 9}, {3, 9, 9}, {4}}));
}

TEST(RawTokens, BlocksAndPiecesDoNotMatter) {
  std::vector<uint16_t> tokens;
  TokenLists expected;
  for (uint32_t document = 0; document < 42'000; ++document) {
    std::vector<int64_t>& row = expected.emplace_back();
    for (uint32_t i = 0; i < document % 129; ++i) row.push_back(10 + (document + i) % 80);
    row.push_back(9);
    for (const int64_t value : row) tokens.push_back(static_cast<uint16_t>(value));
  }
  ASSERT_GT(tokens.size() * 2, 5u << 20);  // more than is scanned at once
  RawFile small(numbers16(tokens));
  EXPECT_EQ(small.rows(), expected);
  IndexOptions options;
  options.block_rows = 7;
  options.block_bytes = 1000;
  EXPECT_EQ(small.rows(options), expected);
}

TEST(RawTokens, TheHeaderSaysWhatATokenIs) {
  const std::string dict = "{'descr': '<u2', 'fortran_order': False, 'shape': (4,), }";
  RawFile small(numpy(dict, numbers16({1, 9, 3, 9})));
  EXPECT_EQ(small.rows(), (TokenLists{{1, 9}, {3, 9}}));
  small.source.raw.element = std::nullopt;
  EXPECT_EQ(small.rows(), (TokenLists{{1, 9}, {3, 9}}));
  small.source.raw.element = Element::kI32;
  EXPECT_TRUE(contains(small.refusal(), "uint16") && contains(small.refusal(), "int32"));
}

TEST(RawTokens, BrokenHeadersAreNamed) {
  const std::string good = "{'descr': '<u2', 'fortran_order': False, 'shape': (2,), }";
  const std::string values = numbers16({1, 9});
  const auto refusal = [&](const std::string& bytes) {
    const auto layout = raw_layout(bytes, bytes.size(), std::nullopt);
    return layout.ok() ? std::string("read") : layout.status().message();
  };
  EXPECT_EQ(refusal(numpy(good, values)), "read");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string dict = good;
    return refusal(numpy(dict.replace(dict.find(from), from.size(), to), values));
  };
  EXPECT_TRUE(contains(with("'<u2'", "'<f4'"), "integers"));
  EXPECT_TRUE(contains(with("'<u2'", "'>u2'"), "big-endian"));
  EXPECT_TRUE(contains(with("'<u2'", "[('a', '<u2')]"), "integers"));
  EXPECT_TRUE(contains(with("(2,)", "(2, 1)"), "(2, 1)"));
  EXPECT_TRUE(contains(with("(2,)", "()"), "shape ()"));
  EXPECT_TRUE(contains(with("(2,)", "(3,)"), "cut short"));
  EXPECT_TRUE(contains(with("(2,)", "(9223372036854775809,)"), "cut short"));
  EXPECT_TRUE(contains(with("(2,)", "(-2,)"), "header is none"));
  EXPECT_TRUE(contains(with("'shape'", "'form'"), "header is none"));
  EXPECT_TRUE(contains(with("{", "["), "header is none"));
  EXPECT_TRUE(contains(refusal("\x93NUMPY"), "version 0"));
  EXPECT_TRUE(contains(refusal(numpy(good, values).substr(0, 40)), "not whole"));
}

TEST(RawTokens, AnyHeaderIsReadOrRefused) {
  const std::string good =
      numpy("{'descr': '<u2', 'fortran_order': False, 'shape': (2,), }", numbers16({1, 9}));
  for (size_t at = 0; at < good.size(); ++at) {
    for (const int value : {0, 39, 40, 123, 255}) {
      std::string bytes = good;
      bytes[at] = static_cast<char>(value);
      const auto layout = raw_layout(bytes, bytes.size(), Element::kU16);
      if (!layout.ok()) continue;
      EXPECT_LE(layout->begin + layout->tokens * element_bytes(layout->element), bytes.size());
    }
  }
}

TEST(RawTokens, HeadersOfLlmC) {
  ByteWriter writer;
  for (const uint32_t value : {20240520u, 1u, 3u}) writer.u32(value);
  const std::string header = writer.take() + std::string(1024 - 12, '\0');
  const std::string values = numbers16({1, 2, 9});
  const auto layout = raw_layout(header + values, 1030, std::nullopt);
  ASSERT_TRUE(layout.ok()) << layout.status().message();
  EXPECT_EQ(layout->begin, 1024u);
  EXPECT_EQ(layout->tokens, 3u);
  EXPECT_EQ(layout->element, Element::kU16);
  EXPECT_TRUE(contains(raw_layout(header, 1024, std::nullopt).status().message(), "cut short"));
  EXPECT_FALSE(raw_layout(header.substr(0, 600), 600, std::nullopt).ok());
}

TEST(RawTokens, AnIdxBesideItIsMegatrons) {
  RawFile small(numbers16({1, 9}), "mem:/a.bin");
  EXPECT_EQ(small.rows(), (TokenLists{{1, 9}}));
  small.storage.put("mem:/a.idx", "x");
  EXPECT_TRUE(contains(small.refusal(), "format: megatron")) << small.refusal();
}

TEST(RawTokens, AMarkThatIsNowhereIsRefused) {
  RawFile small(numbers16({1, 2, 3}));
  EXPECT_TRUE(contains(small.refusal(), "no token 9")) << small.refusal();
  small.source.raw.value = 70'000;
  EXPECT_TRUE(contains(small.refusal(), "more than a token of uint16")) << small.refusal();
}

TEST(RawTokens, AnotherCutIsAnotherIndex) {
  RawFile small(numbers16({1, 9, 2, 9}));
  const std::string bytes = *build_index_bytes(small.storage, nullptr, small.source, {}, {}, {});
  EXPECT_TRUE(SourceIndex::from_bytes(bytes, small.source).ok());
  small.source.raw.value = 2;
  const Status status = SourceIndex::from_bytes(bytes, small.source).status();
  EXPECT_EQ(status.code(), Code::kStateMismatch);
  EXPECT_TRUE(contains(status.message(), "until token 9")) << status.message();
}

}  // namespace
}  // namespace overlord::columnar
