// SourceOrder: position -> (block, row) for one pass of one source, a keyed permutation.
// Blocks are permuted, consecutive permuted blocks form windows, rows are permuted inside a window.
// Seekable: state is O(1) (a position), memory 8 bytes per 64 blocks. Pure and immutable. Making
// one reads every block entry once under kWindow (about 0.1 s for a million blocks); seeking walks
// fewer than 64 entries and a window's blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "overlord/base/permutation.h"
#include "overlord/model/manifest.h"
#include "overlord/model/source.h"
#include "overlord/plan/select/grouped_rows.h"

namespace overlord::plan {

struct RowRef {
  uint32_t block = 0;
  uint32_t row = 0;  // in the block

  friend bool operator==(const RowRef&, const RowRef&) = default;
};

struct OrderWindow {
  uint64_t first_position = 0;
  uint64_t rows = 0;
};

// Key of a source's order in one pass: by name, so other sources coming or going change nothing.
uint64_t order_key(uint64_t seed, std::string_view source_name, uint32_t pass);

class SourceOrder {
 public:
  // `blocks` must outlive the order (it is a view into the mapped index); they follow one another
  // from row 0. A window has ceil(window_rows / mean rows of a block) blocks, at least one; under
  // kFull it has window_rows positions. A block without rows is allowed, and so is such a window.
  SourceOrder(std::span<const model::BlockEntry> blocks, model::Shuffle shuffle,
              uint32_t window_rows, uint64_t key);
  // The same of groups of rows: those of a window are permuted, and their rows follow each other.
  SourceOrder(GroupedRows groups, model::Shuffle shuffle, uint32_t window_rows, uint64_t key);

  uint64_t rows() const { return rows_; }
  uint64_t windows() const { return windows_; }
  uint64_t window_of(uint64_t position) const;  // position < rows()
  OrderWindow window(uint64_t index) const;
  // Rows of one window in the order of their positions.
  void expand(uint64_t index, std::vector<RowRef>* out) const;
  uint64_t memory_bytes() const;

 private:
  struct Groups {
    GroupedRows rows;
    std::vector<model::BlockEntry> blocks;
  };
  SourceOrder(model::Shuffle shuffle, uint32_t window_rows, uint64_t key,
              std::shared_ptr<const Groups> groups);

  struct Slots {  // a run of places in the order of blocks
    uint64_t begin = 0;
    uint64_t end = 0;
  };

  Slots slots_of(uint64_t window) const;
  uint32_t block_at(uint64_t slot) const;  // which block stands at a place of the order
  uint64_t rows_of(uint64_t window) const;
  uint64_t first_position(uint64_t window) const;
  void expand_blocks(uint64_t index, std::vector<RowRef>* out) const;
  void expand_rows(uint64_t index, std::vector<RowRef>* out) const;
  void expand_groups(uint64_t index, std::vector<RowRef>* out) const;

  std::shared_ptr<const Groups> groups_;
  std::span<const model::BlockEntry> blocks_;
  model::Shuffle shuffle_;
  uint64_t key_ = 0;
  uint64_t rows_ = 0;
  uint64_t windows_ = 0;
  uint64_t window_rows_ = 1;             // kFull: positions per window
  uint64_t window_blocks_ = 1;           // kNone, kWindow: blocks per window
  KeyedPermutation permutation_;         // kWindow: of blocks; kFull: of rows
  uint64_t start_stride_ = 1;            // kWindow: windows between two kept starts
  std::vector<uint64_t> window_starts_;  // first position of every start_stride_-th window
};

// The order of one pass of a source. Windows have `window_rows` rows, or fewer where rows are so
// large that more than `window_bytes` would have to be decoded together.
SourceOrder make_order(const model::Source& source, const model::SourceManifest& manifest,
                       uint64_t seed, uint32_t pass);

}  // namespace overlord::plan
