#include <gtest/gtest.h>

#include "overlord/columnar/formats/megatron/megatron_files.h"
#include "overlord/columnar/reading_test.h"

namespace overlord::columnar {
namespace {

using testing::CorpusSpec;
using testing::megatron_idx;

model::Source source_over(const testing::Files& files) {
  model::Source source;
  source.name = "demo";
  source.format = model::Format::kMegatron;
  source.files = testing::shard_uris(files);
  return source;
}

struct Small {
  runtime::MemoryStorage storage;
  model::Source source;

  Small(const std::string& bin, const std::string& idx) {
    storage.put("mem:/a.bin", bin);
    storage.put("mem:/a.idx", idx);
    source.name = "small";
    source.format = model::Format::kMegatron;
    source.files = {"mem:/a.bin"};
  }
  Status index() { return build(storage, source).status(); }
};

class MegatronElements : public ::testing::TestWithParam<model::Element> {};

TEST_P(MegatronElements, ReadsBackEveryToken) {
  CorpusSpec spec;
  spec.element = GetParam();
  spec.vocabulary = element_bytes(spec.element) == 1 ? 100 : 30000;
  const testing::Files files = testing::megatron_corpus(spec);
  runtime::MemoryStorage storage;
  put_all(files, &storage);
  IndexOptions options;
  options.block_rows = 7;
  const auto index = build(storage, source_over(files), options);
  ASSERT_TRUE(index.ok()) << index.status().message();
  const model::SourceManifest& manifest = (*index)->manifest();
  EXPECT_EQ(manifest.rows, 100u);
  EXPECT_EQ(manifest.meta_origin, model::MetaOrigin::kIndex);
  const auto all = read_all(storage, **index);
  ASSERT_TRUE(all.ok()) << all.status().message();
  ASSERT_EQ(all->tokens.size(), 100u);
  for (uint64_t document = 0; document < 100; ++document) {
    const auto expected = testing::tokens_of(spec, document);
    EXPECT_EQ(manifest.lengths[document], expected.size());
    EXPECT_EQ(all->tokens[document], std::vector<int64_t>(expected.begin(), expected.end()));
  }
}

INSTANTIATE_TEST_SUITE_P(All, MegatronElements,
                         ::testing::Values(Element::kU8, Element::kI8, Element::kI16, Element::kI32,
                                           Element::kI64, Element::kU16));

TEST(MegatronReader, WholeBlockIsNotCopied) {
  const testing::Files files = testing::megatron_corpus({});
  runtime::MemoryStorage storage;
  put_all(files, &storage);
  const auto index = build(storage, source_over(files));
  ASSERT_TRUE(index.ok());
  const auto reader = (*index)->reader();
  const auto ranges = (*reader)->ranges({0, {}});
  ASSERT_EQ(ranges->size(), 1u);
  const model::ShardEntry& shard = (*index)->manifest().shards[0];
  const auto piece = storage.read_blocking({shard.uri, 0, (*ranges)[0].size_bytes, {}});
  const auto block = (*reader)->decode({0, {}}, {*piece});
  ASSERT_TRUE(block.ok());
  EXPECT_EQ(block->tokens.values.data, piece->data);
}

TEST(MegatronReader, ReadsOnlyWantedRows) {
  CorpusSpec spec;
  spec.least_tokens = 20000;  // 40 kB each: wider than the gap that is joined
  spec.most_tokens = 20100;
  spec.documents = 20;
  spec.shards = 1;
  const testing::Files files = testing::megatron_corpus(spec);
  runtime::MemoryStorage storage;
  put_all(files, &storage);
  const auto index = build(storage, source_over(files));
  ASSERT_TRUE(index.ok());
  ASSERT_EQ((*index)->manifest().blocks.size(), 1u);
  const auto reader = (*index)->reader();
  const BlockRequest request{0, {1, 2, 9, 19}};
  EXPECT_EQ((*reader)->ranges(request)->size(), 3u);
  const auto block = read_block(storage, **index, **reader, request);
  ASSERT_TRUE(block.ok()) << block.status().message();
  for (uint32_t row = 0; row < 20; ++row) {
    const bool wanted = row == 1 || row == 2 || row == 9 || row == 19;
    if (!wanted) {
      EXPECT_EQ(block->tokens.counts[row], 0u);
      continue;
    }
    const auto expected = testing::tokens_of(spec, row);
    EXPECT_EQ(row_of(block->tokens, row), std::vector<int64_t>(expected.begin(), expected.end()));
  }
}

TEST(MegatronReader, RefusesRowsThatAreNotThere) {
  const testing::Files files = testing::megatron_corpus({});
  runtime::MemoryStorage storage;
  put_all(files, &storage);
  const auto index = build(storage, source_over(files));
  const auto reader = (*index)->reader();
  EXPECT_EQ((*reader)->ranges({0, {50}}).status().code(), Code::kOutOfRange);
  EXPECT_EQ((*reader)->ranges({0, {3, 3}}).status().code(), Code::kOutOfRange);
  EXPECT_EQ((*reader)->ranges({99, {}}).status().code(), Code::kOutOfRange);
  EXPECT_EQ((*reader)->decode({0, {}}, {}).status().code(), Code::kInternal);
}

TEST(MegatronReader, TokenOutsideVocabularyIsABadRow) {
  CorpusSpec spec;
  spec.vocabulary = 1000;
  spec.shards = 1;
  const testing::Files files = testing::megatron_corpus(spec);
  runtime::MemoryStorage storage;
  put_all(files, &storage);
  model::Source source = source_over(files);
  source.vocabulary = 998;  // ids 998 and 999 are now outside
  const auto index = build(storage, source);
  const auto all = read_all(storage, **index);
  ASSERT_TRUE(all.ok());
  size_t bad = 0;
  for (uint64_t document = 0; document < 50; ++document) {
    const auto expected = testing::tokens_of(spec, document);
    const bool is_bad = *std::max_element(expected.begin(), expected.end()) >= 998;
    bad += is_bad ? 1 : 0;
    EXPECT_EQ(all->tokens[document] == std::vector<int64_t>{-1}, is_bad) << document;
  }
  ASSERT_GT(bad, 0u);
  ASSERT_EQ(all->bad.size(), bad);
  EXPECT_TRUE(contains(all->bad[0].second, "source 'demo'"));
  EXPECT_TRUE(contains(all->bad[0].second, "demo-00000.bin"));
  EXPECT_TRUE(contains(all->bad[0].second, "row " + std::to_string(all->bad[0].first)));
  EXPECT_TRUE(contains(all->bad[0].second, "outside of the vocabulary of 998"));

  // Counted when indexed, the same rows are bad in the lengths, and the others stay readable.
  IndexOptions options;
  options.lengths = true;
  options.block_rows = 9;
  const auto counted = build(storage, source, options);
  ASSERT_TRUE(counted.ok()) << counted.status().message();
  EXPECT_EQ((*counted)->bad_rows(), all->bad);
  const auto again = read_all(storage, **counted);
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->tokens, all->tokens);
  EXPECT_EQ(again->bad, all->bad);
  EXPECT_NE((*counted)->manifest().digest, (*index)->manifest().digest);
}

TEST(MegatronReader, NegativeIdsAreBad) {
  Small small(std::string("\x01\x00\xff\xff\x02\x00", 6), megatron_idx({1, 1, 1}, 3, 2));
  const auto index = build(small.storage, small.source);
  const auto all = read_all(small.storage, **index);
  EXPECT_EQ(all->tokens, (std::vector<std::vector<int64_t>>{{1}, {-1}, {2}}));
  EXPECT_TRUE(contains(all->bad[0].second, "token id -1"));
}

TEST(MegatronReader, EmptyAndOversizeDocumentsKeepTheirRows) {
  std::string bin;
  for (int i = 0; i < 40; ++i) bin.push_back(static_cast<char>(i));
  Small small(bin, megatron_idx({0, 5, 0, 20, 5, 10, 0}, 1, 1));
  small.source.limits.max_document_bytes = 12;
  const auto index = build(small.storage, small.source);
  ASSERT_TRUE(index.ok()) << index.status().message();
  const auto all = read_all(small.storage, **index);
  ASSERT_TRUE(all.ok()) << all.status().message();
  ASSERT_EQ(all->tokens.size(), 7u);
  EXPECT_EQ(all->tokens[1], (std::vector<int64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(all->tokens[4], (std::vector<int64_t>{25, 26, 27, 28, 29}));
  EXPECT_EQ(all->tokens[5].front(), 30);
  ASSERT_EQ(all->bad.size(), 4u);
  EXPECT_TRUE(contains(all->bad[0].second, "empty document"));
  EXPECT_TRUE(contains(all->bad[2].second, "over limits.max_document (12)"));
  EXPECT_EQ((*index)->manifest().lengths[3], model::kBadRow);
}

TEST(MegatronReader, DocumentsOutOfOrderInTheBinAreCutIntoBlocks) {
  std::string idx = megatron_idx({2, 2, 2}, 1, 1);
  idx[34 + 12] = 4;  // the first document now lies last,
  idx[34 + 20] = 0;  // the second first,
  idx[34 + 28] = 2;  // and the third behind it
  Small small("abcdef", idx);
  const auto index = build(small.storage, small.source);
  ASSERT_TRUE(index.ok()) << index.status().message();
  EXPECT_EQ((*index)->manifest().blocks.size(), 2u);
  const auto all = read_all(small.storage, **index);
  EXPECT_EQ(all->tokens, (std::vector<std::vector<int64_t>>{{'e', 'f'}, {'a', 'b'}, {'c', 'd'}}));
}

TEST(MegatronReader, PrefixIsAccepted) {
  Small small("ab", megatron_idx({2}, 1, 1));
  small.source.files = {"mem:/a"};
  EXPECT_TRUE(small.index().ok());
  small.source.files = {"mem:/a.idx"};
  EXPECT_EQ(small.index().code(), Code::kInvalidArgument);
}

struct Broken {
  const char* name;
  std::string bin;
  std::string idx;
  Code code;
  const char* says;
};

TEST(MegatronReader, RefusesBrokenFilesWithTheReason) {
  const std::string good = megatron_idx({2, 3}, 1, 1);
  std::string magic = good, version = good, dtype = good, negative = good, sequences = good;
  magic[0] = 'X';
  version[9] = 2;
  dtype[17] = 9;
  negative[34 + 3] = '\x80';
  sequences[25] = '\x7f';  // top byte of the sequence count
  std::string gap = megatron_idx({2, 3}, 1, 1, {0, 2});
  gap[34 + 16] = 1;
  const std::vector<Broken> cases = {
      {"empty", "abcde", "", Code::kBadData, "too short"},
      {"magic", "abcde", magic, Code::kBadData, "no Megatron magic"},
      {"version", "abcde", version, Code::kVersionMismatch, "version 2"},
      {"dtype", "abcde", dtype, Code::kBadData, "unknown dtype code 9"},
      {"float", "abcde", megatron_idx({2, 3}, 7, 4), Code::kInvalidArgument, "floating point"},
      {"cut", "abcde", good.substr(0, good.size() - 1), Code::kBadData, "its header needs"},
      {"modes", "abcde", good + std::string(2, '\0'), Code::kInvalidArgument, "not of 32 bits"},
      {"short bin", "abcd", good, Code::kBadData, "past the end of the .bin"},
      {"negative", "abcde", negative, Code::kBadData, "negative"},
      {"lying count", "abcde", sequences, Code::kBadData, "claims more"},
      {"gap", "abcdefgh", gap, Code::kBadData, "not contiguous"},
      {"boundary", "abcde", megatron_idx({2, 3}, 1, 1, {0, 1}), Code::kBadData,
       "ends at sequence 1"},
      {"backwards", "abcde", megatron_idx({2, 3}, 1, 1, {0, 2, 1}), Code::kBadData, "ascending"},
      {"no documents", "", megatron_idx({}, 1, 1), Code::kInvalidArgument, "no rows"},
  };
  for (const Broken& broken : cases) {
    Small small(broken.bin, broken.idx);
    const Status status = small.index();
    EXPECT_EQ(status.code(), broken.code) << broken.name << ": " << status.message();
    EXPECT_TRUE(contains(status.message(), broken.says)) << broken.name << ": " << status.message();
    EXPECT_TRUE(contains(status.message(), "'small'")) << status.message();
  }
}

TEST(MegatronReader, MissingIdxIsNamed) {
  runtime::MemoryStorage storage;
  storage.put("mem:/a.bin", "ab");
  model::Source source;
  source.name = "s";
  source.format = model::Format::kMegatron;
  source.files = {"mem:/a.bin"};
  const Status status = build(storage, source).status();
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_TRUE(contains(status.message(), "mem:/a.idx"));
}

// A file as tools/preprocess_mmdata.py of Megatron packs it.
std::string packed_file(const std::string& bytes) {
  const auto padding = static_cast<char>((4 - bytes.size() % 4) % 4);
  return std::string{padding, 0, 0, 0} + bytes + std::string(static_cast<size_t>(padding), '\0');
}

struct Multimodal {
  runtime::MemoryStorage storage;
  model::Source source;
  std::string bin;
  std::vector<int32_t> lengths;
  std::vector<int64_t> boundaries = {0};
  std::string modes;

  void add(const std::string& bytes, int mode) {
    bin += bytes;
    lengths.push_back(static_cast<int32_t>(bytes.size() / 4));
    modes += static_cast<char>(mode);
  }
  void add_tokens(const std::vector<int32_t>& tokens) {
    add({reinterpret_cast<const char*>(tokens.data()), tokens.size() * 4}, 0);
  }
  void end() { boundaries.push_back(static_cast<int64_t>(lengths.size())); }

  Result<std::shared_ptr<const SourceIndex>> index(const IndexOptions& options = {}) {
    storage.put("mem:/a.bin", bin);
    storage.put("mem:/a.idx", megatron_idx(lengths, 4, 4, boundaries) + modes);
    source.name = "mm";
    source.format = model::Format::kMegatron;
    source.files = {"mem:/a.bin"};
    source.vocabulary = 100;
    return build(storage, source, options);
  }
};

void put_pairs(Multimodal* files) {
  for (const int32_t token : {1, 2, 3}) {
    files->add_tokens({token, 7});
    for (int32_t i = 0; i < token; ++i) files->add(packed_file(std::string(5, 'a' + i)), 1);
    if (token == 2) files->add(packed_file("sound"), 2);
    files->end();
  }
}

TEST(MegatronModes, TextIsOfMode0AndFilesAreOfTheOthers) {
  for (const bool with_media : {false, true}) {
    Multimodal files;
    put_pairs(&files);
    if (with_media) files.source.media = {{"image", {"1"}, {}, true}, {"sound", {"2"}}};
    IndexOptions counting;
    counting.lengths = true;
    for (const IndexOptions& options : {IndexOptions(), counting}) {
      const auto index = files.index(options);
      ASSERT_TRUE(index.ok()) << index.status().message();
      EXPECT_EQ(read_all(files.storage, **index)->tokens,
                (std::vector<std::vector<int64_t>>{{1, 7}, {2, 7}, {3, 7}}));
      if (!with_media) continue;
      const auto reader = (*index)->reader();
      std::vector<std::vector<std::string>> found;
      for (uint32_t block = 0; block < (*index)->manifest().blocks.size(); ++block) {
        const auto media =
            read_media(files.storage, (*index)->manifest(), **reader, {block, {}, nullptr});
        ASSERT_TRUE(media.ok()) << media.status().message();
        for (const auto& list : *media) found.push_back(texts_of(list));
      }
      EXPECT_EQ(found, (std::vector<std::vector<std::string>>{{"aaaaa"},
                                                              {},
                                                              {"aaaaa", "bbbbb"},
                                                              {"sound"},
                                                              {"aaaaa", "bbbbb", "ccccc"},
                                                              {}}));
    }
  }
}

TEST(MegatronModes, WhatCannotBeUsedIsABadRow) {
  Multimodal files;
  files.source.media = {{"image", {"1"}}};
  const auto document = [&](const std::vector<std::string>& packed) {
    files.add_tokens({1, 2});
    for (const std::string& one : packed) files.add(one, 1);
    files.end();
  };
  document({packed_file("fine")});
  document({packed_file("two"), packed_file("of them")});
  document({""});                           // no room for its padding
  document({std::string("\x09\0\0\0x", 8)});  // more padding than there can be
  document({packed_file("text on both sides")});
  files.boundaries.back() = static_cast<int64_t>(files.lengths.size()) + 1;
  files.add_tokens({3});
  document({packed_file("fine again")});
  files.add_tokens({1, 200});  // outside of the vocabulary
  files.end();
  IndexOptions counting;
  counting.lengths = true;
  const auto index = files.index(counting);
  ASSERT_TRUE(index.ok()) << index.status().message();
  const auto rows = read_all(files.storage, **index);
  ASSERT_TRUE(rows.ok()) << rows.status().message();
  using Row = std::vector<int64_t>;
  const std::vector<Row> expected = {{1, 2}, {-1}, {-1}, {-1}, {-1}, {1, 2}, {-1}};
  EXPECT_EQ(rows->tokens, expected);
  const auto bad = (*index)->bad_rows();
  ASSERT_EQ(bad.size(), 5u);
  const char* const words[] = {"2 blobs", "no room", "padding", "text between media", "vocabulary"};
  for (size_t i = 0; i < bad.size(); ++i) EXPECT_TRUE(contains(bad[i].second, words[i])) << bad[i].second;
}

TEST(MegatronModes, MediaOfFilesWithoutModesAreRefused) {
  Multimodal files;
  files.add_tokens({1, 2});
  files.end();
  files.modes.clear();
  EXPECT_TRUE(files.index().ok());
  files.source.media = {{"image", {"1"}}};
  EXPECT_TRUE(contains(files.index().status().message(), "no sequence modes"));
  files.source.media = {{"image", {"jpg"}}};
  EXPECT_TRUE(contains(files.index().status().message(), "the mode of its sequences"));
}

TEST(MegatronModes, AnyByteOfAnIdxMayBeWrong) {
  Multimodal good;
  put_pairs(&good);
  good.source.media = {{"image", {"1"}, {}, true}};
  ASSERT_TRUE(good.index().ok());
  const std::string idx = megatron_idx(good.lengths, 4, 4, good.boundaries) + good.modes;
  for (size_t at = 0; at < idx.size(); ++at) {
    for (const int value : {0, 1, 2, 0x7f, 0xff}) {
      std::string bytes = idx;
      bytes[at] = static_cast<char>(value);
      good.storage.put("mem:/a.idx", bytes);
      const auto index = build(good.storage, good.source);
      if (!index.ok()) continue;
      EXPECT_TRUE(read_all(good.storage, **index).ok());
    }
  }
}

}  // namespace
}  // namespace overlord::columnar
