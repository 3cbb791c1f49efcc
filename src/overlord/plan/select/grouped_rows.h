// Rows by where they lie in their shard: which of them stay together, and which part of a division
// each belongs to. Both follow from the shard alone, so shards that come later change neither.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "overlord/model/manifest.h"
#include "overlord/model/source.h"

namespace overlord::plan {

// `manifest` must outlive it; a column of `groups` is one of the source's metadata columns.
class GroupedRows {
 public:
  GroupedRows(const model::Source& source, const model::SourceManifest& manifest);

  // Whether a row is in one group with the one before it.
  bool joins(const model::ShardEntry& shard, uint64_t row) const;
  // The first row of its group.
  uint64_t leader(const model::ShardEntry& shard, uint64_t row) const;
  // The blocks with their edges moved to the next group's begin, so that none is cut. Such a block
  // reads from the blocks of the files that its rows lie in.
  std::vector<model::BlockEntry> whole_blocks() const;
  const model::SourceManifest& manifest() const { return *manifest_; }
  // Of a row in this block of the files.
  const model::ShardEntry& shard_of(uint64_t block) const {
    return manifest_->shards[manifest_->blocks[block].shard];
  }

 private:
  const model::SourceManifest* manifest_;
  uint32_t rows_;
  std::span<const uint32_t> values_;  // of the column; empty: groups are `rows_` rows, or one
};

// Where a row stands in the division of its source's rows into parts (Source::part).
uint32_t place_in_division(const model::ShardEntry& shard, uint64_t row);

}  // namespace overlord::plan
