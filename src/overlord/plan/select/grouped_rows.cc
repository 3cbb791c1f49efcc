#include "overlord/plan/select/grouped_rows.h"

#include <algorithm>

#include "overlord/base/check.h"
#include "overlord/base/rng.h"

namespace overlord::plan {

GroupedRows::GroupedRows(const model::Source& source, const model::SourceManifest& manifest)
    : manifest_(&manifest), rows_(std::max<uint32_t>(source.groups.rows, 1)) {
  if (source.groups.column.empty()) return;
  const auto& names = source.metadata_columns;
  const auto at = std::find(names.begin(), names.end(), source.groups.column);
  OVERLORD_CHECK(at != names.end(), "groups read a column of their source");
  values_ = manifest.columns[static_cast<size_t>(at - names.begin())];
}

bool GroupedRows::joins(const model::ShardEntry& shard, uint64_t row) const {
  OVERLORD_CHECK(row - shard.first_row < shard.rows, "a row of the shard");
  if (row == shard.first_row) return false;
  return values_.empty() ? (row - shard.first_row) % rows_ != 0 : values_[row] == values_[row - 1];
}

uint64_t GroupedRows::leader(const model::ShardEntry& shard, uint64_t row) const {
  while (joins(shard, row)) --row;
  return row;
}

std::vector<model::BlockEntry> GroupedRows::whole_blocks() const {
  std::vector<model::BlockEntry> blocks(manifest_->blocks.begin(), manifest_->blocks.end());
  for (uint64_t b = 0; b < blocks.size(); ++b) {
    const model::ShardEntry& shard = shard_of(b);
    const uint64_t end = shard.first_row + shard.rows;
    uint64_t& first = blocks[b].first_row;
    while (first < end && joins(shard, first)) ++first;
  }
  for (uint64_t b = 0; b < blocks.size(); ++b) {
    const uint64_t end = b + 1 < blocks.size() ? blocks[b + 1].first_row : manifest_->rows;
    blocks[b].rows = static_cast<uint32_t>(end - blocks[b].first_row);
  }
  return blocks;
}

uint32_t place_in_division(const model::ShardEntry& shard, uint64_t row) {
  const model::Fingerprint& bytes = shard.fingerprint;
  const uint64_t key = derive_key(bytes.content, "division", bytes.size_bytes);
  return static_cast<uint32_t>(random_u64(key, row - shard.first_row) >> 32);
}

}  // namespace overlord::plan
