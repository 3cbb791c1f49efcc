// PlanIndex: a plan's segments by bucket and by source, derived once when the plan is published so
// that hundreds of loaders do not each scan the whole plan.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "overlord/model/plan.h"

namespace overlord::model {

// The segments of one bucket, in (microbatch, slot, bin) order: the order in which bytes are laid
// out.
struct BucketIndex {
  std::vector<uint32_t> segments;      // index into Layer::segments, by ordinal
  std::vector<uint32_t> row_ends;      // end of row r's ordinals; row = microbatch * size + slot
  std::vector<uint32_t> capacities;    // by row, where bins differ; else empty
  std::vector<uint32_t> bins;          // by row, where bins differ; else empty
  std::vector<uint32_t> source_begin;  // per source: its ordinals are by_source[begin, next begin)
  std::vector<uint32_t> by_source;     // ordinals grouped by source, ascending inside
  // Bins of the encoder's layer that ranks of this bucket encode, grouped like by_source; both
  // empty without an encoder.
  std::vector<uint32_t> encoded_begin;
  std::vector<uint32_t> encoded;
};

struct PlanIndex {
  std::vector<BucketIndex> buckets;
  std::vector<uint8_t> source_present;  // per source: has any segment in the step

  static std::shared_ptr<const PlanIndex> make(const Plan& plan, uint32_t sources);
};

}  // namespace overlord::model
