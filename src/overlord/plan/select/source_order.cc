#include "overlord/plan/select/source_order.h"

#include <algorithm>
#include <string>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/base/fixed_point.h"
#include "overlord/base/rng.h"

namespace overlord::plan {
namespace {

using model::BlockEntry;
using model::Shuffle;

constexpr uint64_t kBlocksPerStart = 64;

uint64_t row_count(std::span<const BlockEntry> blocks) {
  return blocks.empty() ? 0 : blocks.back().first_row + blocks.back().rows;
}

// What is permuted: blocks, rows or (kNone) nothing. A permutation has at least one element.
uint64_t permuted(std::span<const BlockEntry> blocks, Shuffle shuffle) {
  if (shuffle == Shuffle::kNone) return 1;
  const uint64_t things = shuffle == Shuffle::kFull ? row_count(blocks) : blocks.size();
  return std::max<uint64_t>(things, 1);
}

// The last block that starts at or before `row`: of blocks that start together it is the one with
// rows. Blocks are about equal, so the search widens from where the block would be if they were:
// the table may be far larger than a cache.
uint64_t block_of_row(std::span<const BlockEntry> blocks, uint64_t row) {
  const uint64_t guess = static_cast<uint64_t>(Uint128{row} * blocks.size() / row_count(blocks));
  uint64_t low = guess;
  for (uint64_t reach = 1; blocks[low].first_row > row; reach *= 2) low -= std::min(low, reach);
  uint64_t high = guess + 1;
  for (uint64_t reach = 1; high < blocks.size() && blocks[high].first_row <= row; reach *= 2) {
    low = high;
    high = std::min<uint64_t>(high + reach, blocks.size());
  }
  const auto after = std::upper_bound(
      blocks.begin() + low, blocks.begin() + high, row,
      [](uint64_t wanted, const BlockEntry& block) { return wanted < block.first_row; });
  const uint64_t found = static_cast<uint64_t>(after - blocks.begin()) - 1;
  OVERLORD_CHECK(row - blocks[found].first_row < blocks[found].rows, "a block holds the row");
  return found;
}

}  // namespace

uint64_t order_key(uint64_t seed, std::string_view source_name, uint32_t pass) {
  return derive_key(seed, std::string("order/").append(source_name), pass);
}

SourceOrder::SourceOrder(GroupedRows groups, Shuffle shuffle, uint32_t window_rows, uint64_t key)
    : SourceOrder(shuffle, window_rows, key,
                  std::make_shared<Groups>(Groups{groups, groups.whole_blocks()})) {}

SourceOrder::SourceOrder(Shuffle shuffle, uint32_t window_rows, uint64_t key,
                         std::shared_ptr<const Groups> groups)
    : SourceOrder(std::span(groups->blocks), shuffle, window_rows, key) {
  OVERLORD_CHECK(shuffle != Shuffle::kFull, "groups of rows are not torn");
  groups_ = std::move(groups);
}

SourceOrder::SourceOrder(std::span<const BlockEntry> blocks, Shuffle shuffle, uint32_t window_rows,
                         uint64_t key)
    : blocks_(blocks),
      shuffle_(shuffle),
      key_(key),
      rows_(row_count(blocks)),
      window_rows_(std::max<uint32_t>(window_rows, 1)),
      permutation_(permuted(blocks, shuffle), key) {
  if (rows_ == 0) return;
  if (shuffle_ == Shuffle::kFull) {
    windows_ = (rows_ - 1) / window_rows_ + 1;
    return;
  }
  // ceil(window_rows / (rows / blocks)); more blocks than there are mean one window of all.
  window_blocks_ = (window_rows_ * blocks_.size() + rows_ - 1) / rows_;
  window_blocks_ = std::clamp<uint64_t>(window_blocks_, 1, blocks_.size());
  windows_ = (blocks_.size() - 1) / window_blocks_ + 1;
  if (shuffle_ == Shuffle::kNone) return;

  start_stride_ = (kBlocksPerStart - 1) / window_blocks_ + 1;
  window_starts_.reserve((windows_ - 1) / start_stride_ + 1);
  uint64_t position = 0;
  for (uint64_t window = 0; window < windows_; ++window) {
    if (window % start_stride_ == 0) window_starts_.push_back(position);
    position += rows_of(window);
  }
  OVERLORD_CHECK(position == rows_, "blocks do not follow one another");
}

SourceOrder::Slots SourceOrder::slots_of(uint64_t window) const {
  OVERLORD_CHECK(window < windows_, "window outside the order");
  const uint64_t begin = window * window_blocks_;
  return {begin, std::min<uint64_t>(begin + window_blocks_, blocks_.size())};
}

uint32_t SourceOrder::block_at(uint64_t slot) const {
  return static_cast<uint32_t>(shuffle_ == Shuffle::kNone ? slot : permutation_(slot));
}

uint64_t SourceOrder::rows_of(uint64_t window) const {
  const Slots slots = slots_of(window);
  uint64_t rows = 0;
  for (uint64_t slot = slots.begin; slot < slots.end; ++slot) rows += blocks_[block_at(slot)].rows;
  return rows;
}

uint64_t SourceOrder::first_position(uint64_t window) const {
  if (shuffle_ == Shuffle::kFull) return window * window_rows_;
  if (shuffle_ == Shuffle::kNone) return blocks_[window * window_blocks_].first_row;
  const uint64_t start = window / start_stride_;
  uint64_t position = window_starts_[start];
  for (uint64_t at = start * start_stride_; at < window; ++at) position += rows_of(at);
  return position;
}

OrderWindow SourceOrder::window(uint64_t index) const {
  OVERLORD_CHECK(index < windows_, "window outside the order");
  if (shuffle_ == Shuffle::kFull) {
    const uint64_t first = index * window_rows_;
    return {first, std::min(window_rows_, rows_ - first)};
  }
  return {first_position(index), rows_of(index)};
}

uint64_t SourceOrder::window_of(uint64_t position) const {
  OVERLORD_CHECK(position < rows_, "position outside the order");
  if (shuffle_ == Shuffle::kFull) return position / window_rows_;
  if (shuffle_ == Shuffle::kNone) return block_of_row(blocks_, position) / window_blocks_;
  const auto after = std::upper_bound(window_starts_.begin(), window_starts_.end(), position);
  const uint64_t start = static_cast<uint64_t>(after - window_starts_.begin()) - 1;
  uint64_t window = start * start_stride_;
  uint64_t end = window_starts_[start] + rows_of(window);
  while (end <= position) end += rows_of(++window);
  return window;
}

void SourceOrder::expand(uint64_t index, std::vector<RowRef>* out) const {
  OVERLORD_CHECK(index < windows_, "window outside the order");
  if (groups_ != nullptr) {
    expand_groups(index, out);
  } else if (shuffle_ == Shuffle::kFull) {
    expand_rows(index, out);
  } else {
    expand_blocks(index, out);
  }
}

void SourceOrder::expand_rows(uint64_t index, std::vector<RowRef>* out) const {
  const OrderWindow range = window(index);
  out->resize(range.rows);
  for (uint64_t i = 0; i < range.rows; ++i) {
    const uint64_t row = permutation_(range.first_position + i);
    OVERLORD_CHECK(row < rows_, "a permutation stays in its range");
    const uint64_t block = block_of_row(blocks_, row);
    (*out)[i] = {static_cast<uint32_t>(block),
                 static_cast<uint32_t>(row - blocks_[block].first_row)};
  }
}

void SourceOrder::expand_blocks(uint64_t index, std::vector<RowRef>* out) const {
  const uint64_t rows = rows_of(index);
  out->resize(rows);
  if (rows == 0) return;
  const bool shuffled = shuffle_ == Shuffle::kWindow;
  // The window's number goes into the second counter: the first ones are the block permutation's.
  const KeyedPermutation within(shuffled ? rows : 1, random_u64(key_, index, 1));
  const Slots slots = slots_of(index);
  uint64_t i = 0;
  for (uint64_t slot = slots.begin; slot < slots.end; ++slot) {
    const uint32_t block = block_at(slot);
    for (uint32_t row = 0; row < blocks_[block].rows; ++row, ++i) {
      (*out)[shuffled ? within(i) : i] = {block, row};
    }
  }
  OVERLORD_CHECK(i == rows, "every row of a window has its position");
}

void SourceOrder::expand_groups(uint64_t index, std::vector<RowRef>* out) const {
  const model::SourceManifest& manifest = groups_->rows.manifest();
  std::vector<RowRef> rows;
  std::vector<size_t> starts;  // of groups
  const Slots slots = slots_of(index);
  for (uint64_t slot = slots.begin; slot < slots.end; ++slot) {
    const BlockEntry& moved = blocks_[block_at(slot)];
    for (uint64_t row = moved.first_row; row < moved.first_row + moved.rows; ++row) {
      const uint64_t block = block_of_row(manifest.blocks, row);
      if (!groups_->rows.joins(groups_->rows.shard_of(block), row)) starts.push_back(rows.size());
      rows.push_back({static_cast<uint32_t>(block),
                      static_cast<uint32_t>(row - manifest.blocks[block].first_row)});
    }
  }
  out->clear();
  if (rows.empty()) return;
  OVERLORD_CHECK(starts.front() == 0, "a window begins with a group");
  const bool shuffled = shuffle_ == Shuffle::kWindow;
  const KeyedPermutation within(shuffled ? starts.size() : 1, random_u64(key_, index, 1));
  std::vector<size_t> group_at(starts.size());
  for (size_t g = 0; g < starts.size(); ++g) group_at[shuffled ? within(g) : g] = g;
  for (const size_t g : group_at) {
    const size_t end = g + 1 < starts.size() ? starts[g + 1] : rows.size();
    out->insert(out->end(), rows.begin() + static_cast<ptrdiff_t>(starts[g]),
                rows.begin() + static_cast<ptrdiff_t>(end));
  }
  OVERLORD_CHECK(out->size() == rows_of(index), "every row of a window has its position");
}

uint64_t SourceOrder::memory_bytes() const {
  const uint64_t moved = groups_ ? groups_->blocks.capacity() * sizeof(BlockEntry) : 0;
  return sizeof(*this) + moved + window_starts_.capacity() * sizeof(uint64_t);
}

SourceOrder make_order(const model::Source& source, const model::SourceManifest& manifest,
                       uint64_t seed, uint32_t pass) {
  uint64_t bytes = 0;
  for (const BlockEntry& block : manifest.blocks) bytes += block.size_bytes;
  uint64_t rows = source.window_rows;
  if (bytes > 0) {  // rows that window_bytes hold, on average
    rows = std::min<uint64_t>(
        rows, static_cast<uint64_t>(Uint128{source.window_bytes} * manifest.rows / bytes));
  }
  const auto window_rows = static_cast<uint32_t>(std::max<uint64_t>(rows, 1));
  const uint64_t key = order_key(seed, source.name, pass);
  if (source.groups.declared()) {
    return SourceOrder(GroupedRows(source, manifest), source.shuffle, window_rows, key);
  }
  return SourceOrder(manifest.blocks, source.shuffle, window_rows, key);
}

}  // namespace overlord::plan
