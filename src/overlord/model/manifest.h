// Manifest: what the files were when the job started. Sorted, frozen, digested.
// Block tables and lengths are views into the mapped index, so an idle source costs few bytes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/hash.h"

namespace overlord::model {

// What tells one version of an object from another; its meaning belongs to the store.
struct Fingerprint {
  uint64_t size_bytes = 0;
  int64_t modified_ns = 0;  // local files
  uint64_t content = 0;     // sampled content hash (local) or ETag hash (object stores)
  // Object stores: the ETag without quotes, with which every range is asked for; zeros behind it.
  // Empty: a local file, or an ETag that is longer than any known store's, whose hash must do.
  std::array<char, 48> etag{};

  std::string_view etag_text() const {
    const std::string_view all(etag.data(), etag.size());
    return all.substr(0, all.find('\0'));
  }
  void set_etag(std::string_view text) {
    etag = {};
    if (text.size() < etag.size()) text.copy(etag.data(), text.size());
  }

  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};

struct ShardEntry {
  std::string uri;
  Fingerprint fingerprint;
  uint64_t first_row = 0;
  uint64_t rows = 0;
};

// The unit of reading: a row group, a run of JSONL lines, a run of Megatron documents.
// Fixed layout: arrays of it are mapped from the index file.
struct BlockEntry {
  uint64_t first_row = 0;  // row number in the whole source
  uint32_t rows = 0;
  uint32_t shard = 0;
  uint64_t offset = 0;      // bytes (JSONL: of the uncompressed text; Parquet: row-group number)
  uint64_t size_bytes = 0;  // uncompressed bytes of the needed columns
};
static_assert(sizeof(BlockEntry) == 32);

// Where SampleMeta comes from; in no digest, for it is the same (law 4).
enum class MetaOrigin : uint8_t { kIndex, kDecode };

inline constexpr uint32_t kBadRow = 0xffffffffu;  // in `lengths`: found bad when indexed

struct SourceManifest {
  std::string name;
  Digest digest;  // shards, rows, blocks: everything of the files that orders the source
  uint64_t rows = 0;
  MetaOrigin meta_origin = MetaOrigin::kDecode;
  std::vector<ShardEntry> shards;
  std::span<const BlockEntry> blocks;
  std::span<const uint32_t> lengths;  // by row, without bos and eod; empty unless kIndex
  // Source::metadata_columns by row; a bad row has 0.
  std::vector<std::span<const uint32_t>> columns;
  std::shared_ptr<const void> holder;  // keeps the mapping alive
};

struct Manifest {
  std::vector<SourceManifest> sources;  // in JobSpec order
  Digest digest;                        // of all source names and digests
};

}  // namespace overlord::model
