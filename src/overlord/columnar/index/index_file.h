// The index file of one source: its layout, how it is written and how a mapped one is read.
// header | config | shards | blocks | lengths | block extras | blobs | bad rows | columns | media |
// media ends
// Every section is 64-byte aligned, little-endian and hashed. IndexFile checks all of it when it is
// opened; after that no offset in the file can lead outside of it. docs/reference/formats.md.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "overlord/base/hash.h"
#include "overlord/base/status.h"
#include "overlord/model/manifest.h"
#include "overlord/model/source.h"

namespace overlord::columnar {

// 2: with metadata columns. 3: of a format that came later. 4: with media. What an index does not
// need it is not written with, so that older builds read it. Media of version 3 had at most one
// blob per row and are built anew.
inline constexpr uint32_t kMediaIndexVersion = 4;
inline constexpr uint32_t kFormatIndexVersion = 3;
inline constexpr uint32_t kIndexVersion = 2;
inline constexpr uint32_t kPlainIndexVersion = 1;

// What an index was made with. Kept field by field, so that a refusal can say what differs.
struct IndexConfig {
  model::Format format = model::Format::kParquet;
  std::string text_column;
  std::string token_column;
  std::string mask_column;
  std::vector<std::string> metadata_columns;  // sorted
  uint64_t max_document_bytes = 0;
  uint64_t max_block_bytes = 0;
  uint32_t max_expansion = 0;
  uint32_t block_rows = 0;
  uint64_t block_bytes = 0;
  bool counted = false;          // every row was decoded: all bad rows are known
  std::string tokenizer_digest;  // when counted and text; else empty
  uint32_t vocabulary = 0;       // when counted; else 0
  std::vector<model::MediaField> media;
  uint64_t max_media_bytes = 0;  // with media; else 0
  std::string probe_version;     // of the MediaProbe, if one was there
  uint32_t probe_values = 0;     // it keeps per blob

  uint32_t version() const;

  friend bool operator==(const IndexConfig&, const IndexConfig&) = default;
};

// What indexing one shard gives; row numbers count from the start of the shard.
struct ShardPart {
  model::ShardEntry entry;
  model::Fingerprint companion;  // Megatron: of the .idx; else empty
  uint64_t scanned = 0;          // hash of the bytes the indexer went through
  std::vector<model::BlockEntry> blocks;
  std::vector<uint32_t> lengths;                      // one per row, or empty
  std::string block_extras;                           // what a format keeps per block, back to back
  std::vector<uint64_t> block_extra_ends;             // one per block, or empty
  std::string extra;                                  // what a format keeps per shard
  std::vector<std::pair<uint64_t, std::string>> bad;  // ascending rows, reasons
  std::vector<std::vector<uint32_t>> columns;         // of metadata_columns, one value per row
  uint64_t columns_seen = 0;                          // bit i: some row has column i
  // Per media field: the size of each blob, row after row, then the probe's values; and where the
  // blobs of each row end in them.
  std::vector<std::vector<uint32_t>> media;
  std::vector<std::vector<uint64_t>> media_ends;
  std::string fields;  // JSONL with metadata columns: those of the first good row; not kept
};

// Where the shard table says a shard's things are.
struct ShardPlace {
  model::Fingerprint companion;
  uint64_t scanned = 0;
  uint64_t columns_seen = 0;
  uint32_t first_block = 0;
  uint32_t blocks = 0;
  uint64_t extra_offset = 0;  // in the blobs
  uint64_t extra_bytes = 0;
};

// Lays the parts out in their order. `keep_lengths`: every part has lengths and they are final.
Result<std::string> encode_index(const IndexConfig& config, std::vector<ShardPart> parts,
                                 bool keep_lengths);

class IndexFile {
 public:
  static Result<std::shared_ptr<const IndexFile>> map(const std::string& path);
  // `name` stands for the path in messages.
  static Result<std::shared_ptr<const IndexFile>> from_bytes(std::string bytes,
                                                             const std::string& name);
  ~IndexFile();
  IndexFile(const IndexFile&) = delete;
  IndexFile& operator=(const IndexFile&) = delete;

  const IndexConfig& config() const { return config_; }
  const Digest& digest() const { return digest_; }
  uint64_t rows() const { return rows_; }
  const std::vector<model::ShardEntry>& shards() const { return shards_; }
  const ShardPlace& place(uint32_t shard) const { return places_[shard]; }
  std::span<const model::BlockEntry> blocks() const { return blocks_; }
  std::span<const uint32_t> lengths() const { return lengths_; }
  // Of metadata_columns, one value per row.
  std::span<const uint32_t> column(size_t index) const {
    return columns_.subspan(index * rows_, rows_);
  }
  // Of a media field: per row the end of its blobs in the arrays of media().
  std::span<const uint64_t> media_ends(size_t field) const {
    return media_ends_.subspan(field * rows_, rows_);
  }
  // One value per blob: 0 are the sizes, then those of the probe.
  std::span<const uint32_t> media(size_t field, size_t which) const;
  std::string_view block_extra(uint32_t block) const;
  std::string_view shard_extra(uint32_t shard) const;

  uint64_t bad_count() const { return bad_count_; }
  std::pair<uint64_t, std::string_view> bad_row(uint64_t index) const;
  // Reason recorded for a row, or empty.
  std::string_view bad_reason(uint64_t row) const;

  // The part of one shard as it was given to encode_index().
  ShardPart part(uint32_t shard) const;
  uint64_t mapped_bytes() const { return bytes_.size(); }

 private:
  IndexFile() = default;
  Status parse();
  Status parse_sections(std::string_view table);
  Status parse_config(std::string_view bytes);
  Status parse_shards(std::string_view bytes);
  Status check_blocks() const;
  Status check_media();
  Status check_extras() const;
  Status parse_bad_rows(std::string_view bytes);
  bool has_columns() const { return version_ >= kIndexVersion; }
  uint64_t first_bad_at(uint64_t row) const;  // index of the first bad row at or behind `row`

  std::string owned_;        // from_bytes()
  void* mapping_ = nullptr;  // map()
  std::string_view bytes_;

  uint32_t version_ = kPlainIndexVersion;
  IndexConfig config_;
  Digest digest_;
  uint64_t rows_ = 0;
  std::vector<model::ShardEntry> shards_;
  std::vector<ShardPlace> places_;
  std::span<const model::BlockEntry> blocks_;
  std::span<const uint32_t> lengths_;
  std::span<const uint64_t> extra_ends_;  // empty: no block has an extra
  std::string_view blobs_;
  uint64_t bad_count_ = 0;
  std::string_view bad_rows_;
  std::span<const uint32_t> columns_;     // one after another
  std::span<const uint32_t> media_;       // field by field, one array after another
  std::span<const uint64_t> media_ends_;  // ditto
  std::vector<uint64_t> media_begins_;    // of each field's arrays in media_
};

// Temp file, fsync, rename, fsync of the directory: a reader sees the old file or the new one.
Status write_index_file(const std::string& path, std::string_view bytes);

}  // namespace overlord::columnar
