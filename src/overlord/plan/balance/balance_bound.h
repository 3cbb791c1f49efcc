// How light the fullest bin can be at best: bounds that no placement goes below.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "overlord/model/plan.h"
#include "overlord/plan/balance/balance.h"

namespace overlord::plan {

// The same in a plan's report.
model::BoundBy bound_by(LoadLimit limit);

class BoundFinder {
 public:
  // `costs` descending with their `atoms`; every bin must hold at least `least_count` of them.
  LoadBound find(std::span<const int64_t> costs, std::span<const uint32_t> atoms, uint32_t bins,
                 std::span<const int64_t> start_loads, uint32_t least_count);

 private:
  int64_t even_load(std::span<const int64_t> start_loads, uint32_t bins, int64_t total);
  int64_t largest_with_others(uint32_t bins, uint32_t least_count) const;

  std::vector<int64_t> sums_;  // of the largest i costs
  std::vector<int64_t> starts_;
};

}  // namespace overlord::plan
