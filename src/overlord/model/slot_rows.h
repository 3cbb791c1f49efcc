// SlotRows: what one loader slot is to read of a step: all that it needs to know of a plan. The
// planner deals every row of a plan to the slot that owns its window (plan/place/row_dealing.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "overlord/base/fields.h"
#include "overlord/base/hash.h"
#include "overlord/base/ids.h"

namespace overlord::model {

// One segment of the slot's source.
struct PlannedRow {
  uint64_t position = 0;
  uint32_t pass = 0;
  uint32_t ordinal = 0;  // of the bucket's segments (BucketIndex); where it is encoded: the bin
  uint32_t end = 0;      // of the segment, in tokens of its document
  uint32_t count = 0;    // its tokens

  friend bool operator==(const PlannedRow&, const PlannedRow&) = default;
};
static_assert(sizeof(PlannedRow) == 24);

// Where the rows of a bucket end; they begin where those of the one before do.
struct BucketRows {
  uint32_t bucket = 0;
  uint32_t rows_end = 0;
  uint32_t encoded_end = 0;

  friend bool operator==(const BucketRows&, const BucketRows&) = default;
};

struct SlotRows {
  StepIndex step = 0;
  uint32_t tree = 1;
  Digest plan_hash;                 // of the whole plan
  std::vector<BucketRows> buckets;  // that have any, ascending
  std::vector<PlannedRow> rows;     // of one bucket after another, by ordinal
  // Of which ranks of a bucket encode the media, whoever gets the document; by bin.
  std::vector<PlannedRow> encoded;

  std::span<const PlannedRow> rows_of(uint32_t bucket) const {
    const auto found = find(bucket);
    if (found == buckets.end() || found->bucket != bucket) return {};
    const uint32_t begin = found == buckets.begin() ? 0 : std::prev(found)->rows_end;
    return std::span(rows).subspan(begin, found->rows_end - begin);
  }
  std::span<const PlannedRow> encoded_of(uint32_t bucket) const {
    const auto found = find(bucket);
    if (found == buckets.end() || found->bucket != bucket) return {};
    const uint32_t begin = found == buckets.begin() ? 0 : std::prev(found)->encoded_end;
    return std::span(encoded).subspan(begin, found->encoded_end - begin);
  }
  // Whether the buckets ascend and their ends fit the rows.
  bool fits() const {
    BucketRows last;
    for (size_t i = 0; i < buckets.size(); ++i) {
      const BucketRows& one = buckets[i];
      if (i > 0 && one.bucket <= last.bucket) return false;
      if (one.rows_end < last.rows_end || one.encoded_end < last.encoded_end) return false;
      last = one;
    }
    return last.rows_end == rows.size() && last.encoded_end == encoded.size();
  }

  OVERLORD_FIELDS(step, tree, plan_hash, buckets, rows, encoded)

 private:
  std::vector<BucketRows>::const_iterator find(uint32_t bucket) const {
    return std::lower_bound(
        buckets.begin(), buckets.end(), bucket,
        [](const BucketRows& one, uint32_t wanted) { return one.bucket < wanted; });
  }
};

using SlotRowsPtr = std::shared_ptr<const SlotRows>;

}  // namespace overlord::model
