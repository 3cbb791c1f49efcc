// Test support of this room: a source over files in memory, indexed and read back block by block.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "overlord/columnar/index/source_index.h"
#include "overlord/runtime/in_memory/memory_storage.h"
#include "overlord/testing/corpus.h"

namespace overlord::columnar {

inline void put_all(const testing::Files& files, runtime::MemoryStorage* storage) {
  for (const auto& [uri, bytes] : files) storage->put(uri, bytes);
}

inline Result<std::shared_ptr<const SourceIndex>> build(runtime::Storage& storage,
                                                        const model::Source& source,
                                                        const IndexOptions& options = {},
                                                        runtime::TextEncoder* encoder = nullptr) {
  OVERLORD_TRY(std::string bytes,
               build_index_bytes(storage, encoder, source, options, nullptr, {}));
  return SourceIndex::from_bytes(std::move(bytes), source);
}

inline Result<RowBlock> read_block(runtime::Storage& storage, const SourceIndex& index,
                                   const BlockReader& reader, const BlockRequest& request) {
  OVERLORD_TRY(const auto ranges, reader.ranges(request));
  std::vector<runtime::Bytes> pieces;
  for (const RangeRequest& range : ranges) {
    const model::ShardEntry& shard = index.manifest().shards[range.shard];
    OVERLORD_TRY(auto bytes, storage.read_blocking(
                                 {shard.uri, range.offset, range.size_bytes, shard.fingerprint}));
    pieces.push_back(std::move(bytes));
  }
  return reader.decode(request, pieces);
}

inline int64_t element_at(const TokenBlock& block, uint64_t index) {
  const char* at = block.values.data + index * element_bytes(block.element);
  const auto as = [&]<typename T>(T) {
    return static_cast<int64_t>(*reinterpret_cast<const T*>(at));
  };
  switch (block.element) {
    case Element::kU8:
      return as(uint8_t{});
    case Element::kI8:
      return as(int8_t{});
    case Element::kU16:
      return as(uint16_t{});
    case Element::kI16:
      return as(int16_t{});
    case Element::kU32:
      return as(uint32_t{});
    case Element::kI32:
      return as(int32_t{});
    case Element::kU64:
      return as(uint64_t{});
    case Element::kI64:
      return as(int64_t{});
    default:
      return -1;
  }
}

// A row as plain values; bad rows are {-1}.
inline std::vector<int64_t> row_of(const TokenBlock& block, size_t row) {
  if (block.counts[row] == model::kBadRow) return {-1};
  std::vector<int64_t> values;
  for (uint32_t i = 0; i < block.counts[row]; ++i) {
    values.push_back(element_at(block, block.begins[row] + i));
  }
  return values;
}

struct AllRows {
  std::vector<std::vector<int64_t>> tokens;  // by row of the source
  std::vector<std::vector<int>> masks;       // ditto, when the source has masks
  std::vector<std::string> texts;            // text sources; bad rows are empty
  std::vector<std::pair<uint64_t, std::string>> bad;
};

inline Result<AllRows> read_all(runtime::Storage& storage, const SourceIndex& index,
                                std::shared_ptr<runtime::BufferPool> pool = nullptr) {
  OVERLORD_TRY(const auto reader, index.reader());
  AllRows all;
  for (uint32_t block = 0; block < index.manifest().blocks.size(); ++block) {
    OVERLORD_TRY(const RowBlock rows, read_block(storage, index, *reader, {block, {}, pool}));
    const model::BlockEntry& entry = index.manifest().blocks[block];
    const auto& bad = rows.is_text ? rows.text.bad : rows.tokens.bad;
    for (const model::BadRow& row : bad)
      all.bad.emplace_back(entry.first_row + row.index, row.reason);
    if (rows.is_text) {
      EXPECT_EQ(rows.text.rows.rows(), entry.rows);
      for (size_t i = 0; i < rows.text.rows.rows(); ++i)
        all.texts.emplace_back(rows.text.rows.row(i));
      continue;
    }
    EXPECT_EQ(rows.tokens.rows(), entry.rows);
    for (size_t i = 0; i < rows.tokens.rows(); ++i) {
      all.tokens.push_back(row_of(rows.tokens, i));
      if (rows.tokens.mask.size == 0) continue;
      std::vector<int> mask;
      for (uint32_t j = 0; rows.tokens.counts[i] != model::kBadRow && j < rows.tokens.counts[i];
           ++j) {
        mask.push_back(rows.tokens.mask.data[rows.tokens.begins[i] + j]);
      }
      all.masks.push_back(std::move(mask));
    }
  }
  return all;
}

inline std::vector<std::string> texts_of(const std::vector<runtime::Bytes>& blobs) {
  std::vector<std::string> texts;
  for (const runtime::Bytes& blob : blobs) texts.emplace_back(blob.data, blob.size);
  return texts;
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace overlord::columnar
