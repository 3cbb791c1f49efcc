// What the schedulers of hybrid data parallelism have in common: sequences that are cut, packs of
// sequences that are not, and the making of a plan from groups in their order. Used inside plan/
// and by what benchmarks compare with.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/plan/hybrid/hdp.h"

namespace overlord::plan {

// A sequence that is longer than a rank's capacity.
struct HdpLong {
  uint32_t sequence = 0;
  uint32_t length = 0;
  uint32_t least = 1;  // ranks, by memory
  uint32_t most = 1;   // ranks, so that no chunk is empty
  HdpWork work;
};

// Sequences that run together on one rank, at most `capacity` tokens.
struct HdpPack {
  std::vector<uint32_t> sequences;
  uint64_t tokens = 0;
  uint64_t squares = 0;
};

struct HdpItems {
  std::vector<HdpLong> longs;  // in order of arrival
  std::vector<HdpPack> packs;  // best fit, longest sequences first
};

Result<HdpItems> items_of(const HdpProblem& problem);

// A group still without its times and totals.
HdpGroup bare_group(std::vector<uint32_t> ranks, std::vector<uint32_t> sequences);

// When ranks are free, while groups are placed one after the other.
struct RankTimes {
  explicit RankTimes(uint32_t ranks) : free_ns(ranks) {}
  // All members start when the last of them is free; gives the start.
  int64_t run(std::span<const uint32_t> ranks, int64_t cost_ns);
  int64_t latest() const;

  std::vector<int64_t> free_ns;
};

// Numbers, times, totals and bounds of groups that are in global order.
HdpPlan finish_plan(const HdpProblem& problem, std::vector<HdpGroup> groups);

// The methods; each gives groups in global order.
std::vector<HdpGroup> naive_groups(const HdpProblem& problem, const HdpItems& items);
std::vector<HdpGroup> bucket_groups(const HdpProblem& problem, const HdpItems& items);
// Improves on the plan of buckets where it can.
HdpPlan search_plan(const HdpProblem& problem, const HdpItems& items);

struct HdpBound {
  int64_t mean_ns = 0;   // work of a rank when all have the same
  int64_t alone_ns = 0;  // one stage of the longest sequence, on the ranks that suit it best
  uint32_t longest = kNoSequence;

  int64_t of_plan(uint32_t stages) const { return std::max(mean_ns, stages * alone_ns); }
};
HdpBound lower_bound(const HdpProblem& problem);

}  // namespace overlord::plan
