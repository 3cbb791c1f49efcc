#include "overlord/roles/loader/meta_window.h"

#include <gtest/gtest.h>

#include "overlord/columnar/encoded_rows.h"
#include "overlord/columnar/index/source_index.h"
#include "overlord/columnar/text_rules.h"
#include "overlord/runtime/in_memory/memory_storage.h"
#include "overlord/testing/picture_corpus.h"

namespace overlord::loader {
namespace {

// Six rows in two blocks; row 4 has metadata that is none, which only the index knows.
class Metadata : public ::testing::Test {
 protected:
  Metadata() {
    open_.spec.name = "web";
    open_.spec.eod = 9;
    open_.spec.metadata_columns = {"flag", "patches"};
    open_.manifest.shards.push_back({"mem:/a", {}, 0, 6});
    open_.manifest.blocks = blocks_;
    open_.manifest.columns = {std::span<const uint32_t>(flags_),
                              std::span<const uint32_t>(patches_)};
    open_.manifest.rows = 6;
    open_.bad_rows = {{4, "row 4 is bad"}};
    columnar::TokenBlock first, second;
    first.counts = {10, 11, 12};
    second.counts = {13, 14, model::kBadRow};
    second.bad = {{2, "row 5 is bad"}};
    read_[0] = std::make_shared<const columnar::TokenBlock>(first);
    read_[1] = std::make_shared<const columnar::TokenBlock>(second);
  }
  model::MetaWindow from_blocks() const {
    return window_from_blocks(open_, {2, 1, 100}, rows_, read_, {});
  }
  model::MetaWindow from_index() {
    open_.manifest.lengths = lengths_;
    return window_from_index(open_, {2, 1, 100}, rows_);
  }

  std::vector<model::BlockEntry> blocks_{{0, 3, 0, 0, 1}, {3, 3, 0, 1, 1}};
  std::vector<uint32_t> lengths_{10, 11, 12, 13, model::kBadRow, model::kBadRow};
  std::vector<uint32_t> flags_{1, 0, 1, 0, 0, 0};
  std::vector<uint32_t> patches_{0, 50, 100, 150, 0, 0};
  std::vector<plan::RowRef> rows_{{1, 2}, {0, 2}, {1, 0}, {0, 0}, {1, 1}, {0, 1}};
  std::map<uint32_t, TokenBlockPtr> read_;
  OpenSource open_;
};

TEST_F(Metadata, ComesFromTheIndexInTheOrderOfTheWindow) {
  for (const model::MetaWindow& window : {from_blocks(), from_index()}) {
    ASSERT_EQ(window.columns.size(), 2u);
    EXPECT_EQ(window.columns[0].name, "flag");
    EXPECT_EQ(window.columns[1].values, (std::vector<int64_t>{0, 100, 150, 0, 0, 50}));
    EXPECT_EQ(window.tokens, (std::vector<uint32_t>{0, 13, 14, 11, 0, 12}));
    ASSERT_EQ(window.bad.size(), 2u);
    EXPECT_EQ(window.bad[1].index, 4u);
    EXPECT_EQ(window.bad[1].reason, "row 4 is bad");
  }
}

TEST_F(Metadata, PartsHaveEveryRowOnceAndBadOnesToo) {
  std::vector<int> seen(6, 0), bad(6, 0);
  const auto count = [&](const model::MetaWindow& window) {
    for (size_t i = 0; i < 6; ++i) seen[i] += window.tokens[i] != model::kPassedOver;
    for (const model::BadRow& row : window.bad) ++bad[row.index];
  };
  const std::pair<uint32_t, uint32_t> ranges[] = {{0, 49}, {50, 99}, {100, 0xffffffffu}};
  for (const auto& [least, most] : ranges) {
    open_.spec.filter = {"patches", least, most};
    count(from_blocks());
    const model::MetaWindow indexed = from_index();
    EXPECT_EQ(indexed.tokens, from_blocks().tokens);
  }
  EXPECT_EQ(seen, std::vector<int>(6, 1));
  EXPECT_EQ(bad, (std::vector<int>{1, 0, 0, 0, 1, 0}));
}

// Rows 4 and 5 are empty; row 4 is bad for another reason too, which only the index knows.
TEST_F(Metadata, EmptyRowsAreSkippedWhereTheSourceSaysSo) {
  const std::string empty = columnar::empty_row("row 5 holds nothing");
  columnar::TokenBlock second;
  second.counts = {0, model::kBadRow, model::kBadRow};
  second.bad = {{1, columnar::empty_row("row 4 holds nothing")}, {2, empty}};
  read_[1] = std::make_shared<const columnar::TokenBlock>(second);
  open_.bad_rows = {{4, "row 4 is bad"}, {5, empty}};
  lengths_[3] = 0;
  open_.spec.empty = model::EmptyRows::kSkip;
  for (const model::MetaWindow& window : {from_blocks(), from_index()}) {
    EXPECT_EQ(window.tokens,
              (std::vector<uint32_t>{model::kEmptyRow, 13, model::kEmptyRow, 11, 0, 12}));
    ASSERT_EQ(window.bad.size(), 1u);
    EXPECT_EQ(window.bad[0].reason, "row 4 is bad");
  }
  open_.spec.empty = model::EmptyRows::kBad;
  for (const model::MetaWindow& window : {from_blocks(), from_index()}) {
    EXPECT_EQ(window.bad.size(), 3u);
  }
}

// The pictures of a small corpus, indexed in memory.
class MediaMetadata : public ::testing::Test {
 protected:
  void SetUp() override {
    open_.spec.name = "pairs";
    open_.spec.format = model::Format::kWebdataset;
    open_.spec.text_column = "txt";
    open_.spec.tokenizer = {model::TokenizerKind::kBytes, "", "bytes", false};
    open_.spec.vocabulary = 1000;
    open_.spec.bos = 8;
    open_.spec.eod = 9;
    model::MediaUse use;
    use.transform = "patchify layout=vit patch=8";
    use.pad = 7;
    use.after = 6;
    open_.spec.media = {{"image", {"png"}, use}};
    for (const auto& [uri, bytes] : testing::picture_corpus(pictures_)) {
      storage_.put(uri, bytes);
      open_.spec.files.push_back(uri);
    }
  }
  void open(std::shared_ptr<const columnar::MediaProbe> probe) {
    columnar::IndexOptions options;
    options.threads = 1;
    options.probe = std::move(probe);
    auto bytes = columnar::build_index_bytes(storage_, nullptr, open_.spec, options, nullptr,
                                             runtime::CancelToken());
    ASSERT_TRUE(bytes.ok()) << bytes.status().message();
    index_ = *columnar::SourceIndex::from_bytes(*bytes, open_.spec);
    open_.manifest = index_->manifest();
  }

  testing::PictureSpec pictures_{"pairs", "mem:/c", 1, 8, 8, 3};
  runtime::MemoryStorage storage_;
  std::shared_ptr<const columnar::SourceIndex> index_;
  OpenSource open_;
};

TEST_F(MediaMetadata, PlaceholdersStandBeforeTheTextAndCarryNoLoss) {
  open(media_probe(open_.spec));
  auto media = OpenMedia::open(open_.spec, *index_);
  ASSERT_TRUE(media.ok()) << media.status().message();
  open_.media = *media;
  const std::vector<uint32_t> lengths(8, 5);
  open_.manifest.lengths = lengths;
  std::vector<plan::RowRef> rows;
  for (uint32_t row = 0; row < 8; ++row) rows.push_back({0, row});
  columnar::TokenBlock block;
  block.counts = lengths;
  block.begins.resize(8);
  const std::map<uint32_t, TokenBlockPtr> read{
      {0, std::make_shared<const columnar::TokenBlock>(block)}};
  for (const model::MetaWindow& window : {window_from_index(open_, {0, 0, 0}, rows),
                                          window_from_blocks(open_, {0, 0, 0}, rows, read, {})}) {
    ASSERT_EQ(window.columns.size(), 2u);
    EXPECT_EQ(window.columns[0].name, "image_count");
    EXPECT_EQ(window.columns[1].name, "image_patches");
    ASSERT_EQ(window.span_ends.size(), 8u);
    for (uint32_t row = 0; row < 8; ++row) {
      const bool has = testing::has_picture(row);
      const uint32_t patches = has ? testing::picture_width(pictures_, row) / 8 *
                                         (testing::picture_height(pictures_, row) / 8)
                                   : 0;
      EXPECT_EQ(window.columns[0].values[row], has ? 1 : 0);
      EXPECT_EQ(window.columns[1].values[row], patches);
      EXPECT_EQ(window.tokens[row], 7 + patches + (has ? 1 : 0));
      uint32_t carrying = 0;
      for (uint32_t i = row == 0 ? 0 : window.span_ends[row - 1]; i < window.span_ends[row]; ++i) {
        carrying += window.spans[i].count;
      }
      EXPECT_EQ(carrying, 7u);  // bos, text and eod
    }
  }
}

// One picture per row in this corpus, and pads in the text where the test puts them.
TEST_F(MediaMetadata, PlaceholdersTakeThePlaceOfPadsInTheText) {
  open_.spec.media[0].many = true;
  open_.spec.media[0].use->in_text = true;
  open(media_probe(open_.spec));
  EXPECT_EQ(open_.manifest.meta_origin, model::MetaOrigin::kDecode);
  auto media = OpenMedia::open(open_.spec, *index_);
  ASSERT_TRUE(media.ok()) << media.status().message();
  open_.media = *media;
  const std::vector<int32_t> with_pad = {3, 7, 4, 5}, without = {3, 4, 4, 5}, twice = {7, 7, 4, 5};
  columnar::TokenBlock block;
  std::vector<int32_t> values;
  std::vector<plan::RowRef> rows;
  for (uint32_t row = 0; row < 8; ++row) {
    rows.push_back({0, row});
    block.counts.push_back(4);
    block.begins.push_back(values.size());
    const auto& tokens = row == 5                    ? twice
                         : row == 6                  ? without
                         : testing::has_picture(row) ? with_pad
                                                     : without;
    values.insert(values.end(), tokens.begin(), tokens.end());
  }
  block.values = {nullptr, reinterpret_cast<const char*>(values.data()), values.size() * 4};
  const std::map<uint32_t, TokenBlockPtr> read{
      {0, std::make_shared<const columnar::TokenBlock>(block)}};
  const model::MetaWindow window = window_from_blocks(open_, {0, 0, 0}, rows, read, {});
  ASSERT_EQ(window.bad.size(), 2u);
  EXPECT_EQ(window.bad[0].index, 5u);
  EXPECT_NE(window.bad[0].reason.find("pad token 7 2 times, and it has 1 blobs"), std::string::npos)
      << window.bad[0].reason;
  EXPECT_NE(window.bad[0].reason.find("row 5"), std::string::npos) << window.bad[0].reason;
  EXPECT_EQ(window.bad[1].index, 6u);
  EXPECT_EQ(window.columns[0].values[6], 0);
  const uint32_t patches =
      testing::picture_width(pictures_, 1) / 8 * (testing::picture_height(pictures_, 1) / 8);
  EXPECT_EQ(window.tokens[1], 5 + patches + 1);  // bos, text without the pad, eod; `after`
  ASSERT_EQ(window.span_ends[1] - window.span_ends[0], 2u);
  const model::LossSpan front = window.spans[window.span_ends[0]];
  const model::LossSpan back = window.spans[window.span_ends[0] + 1];
  EXPECT_EQ(front.first, 0u);
  EXPECT_EQ(front.count, 2u);
  EXPECT_EQ(back.first, 2 + patches + 1);
  EXPECT_EQ(back.count, 3u);
  EXPECT_EQ(window.tokens[3], 6u);
}

TEST_F(MediaMetadata, AnIndexWithoutSizesIsRefused) {
  open(nullptr);
  const auto media = OpenMedia::open(open_.spec, *index_);
  ASSERT_FALSE(media.ok());
  EXPECT_EQ(media.status().code(), Code::kStateMismatch);
  EXPECT_NE(media.status().message().find("overlord index"), std::string::npos);
}

TEST_F(MediaMetadata, WhatDoesNotFitTheChainIsBadAndNamed) {
  open_.spec.media[0].use->transform = "centre_crop width=24 height=24; planes";
  open_.spec.media[0].use->pads = 1;
  open(media_probe(open_.spec));
  auto media = OpenMedia::open(open_.spec, *index_);
  ASSERT_TRUE(media.ok()) << media.status().message();
  uint32_t bad = 0;
  for (uint64_t row = 0; row < 8; ++row) {
    const bool small =
        testing::picture_width(pictures_, row) < 24 || testing::picture_height(pictures_, row) < 24;
    const auto planned = (*media)->planned(row);
    EXPECT_EQ(planned.ok(), !testing::has_picture(row) || !small);
    if (planned.ok()) continue;
    ++bad;
    EXPECT_EQ(planned.status().code(), Code::kBadData);
    EXPECT_NE(planned.status().message().find("image"), std::string::npos);
  }
  EXPECT_GT(bad, 0u);
}

}  // namespace
}  // namespace overlord::loader
