// PlanIndex: a plan's segments by bucket, in the order in which their bytes are laid out, and who
// is asked for them. Derived once when the plan is published.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "overlord/model/owner_map.h"
#include "overlord/model/plan.h"

namespace overlord::model {

// The segments of one bucket, in (microbatch, slot, bin) order.
struct BucketIndex {
  std::vector<uint32_t> segments;    // index into Layer::segments, by ordinal
  std::vector<uint32_t> row_ends;    // end of row r's ordinals; row = microbatch * size + slot
  std::vector<uint32_t> capacities;  // by row, where bins differ; else empty
  std::vector<uint32_t> bins;        // of the whole plan, by row, where bins differ; else empty
  // Slots that have a segment of it, or an item that its ranks encode; ascending. Whoever makes the
  // index for others to act on fills them in (plan/place/row_dealing.h).
  std::vector<LoaderSlot> readers;
};

struct PlanIndex {
  std::vector<BucketIndex> buckets;

  static std::shared_ptr<PlanIndex> make(const Plan& plan, uint32_t sources);
};

}  // namespace overlord::model
