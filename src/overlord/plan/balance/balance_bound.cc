#include "overlord/plan/balance/balance_bound.h"

#include <algorithm>

#include "overlord/base/check.h"
#include "overlord/base/fixed_point.h"

namespace overlord::plan {

// The level to which `total` fills the bins like water: bins that start above it take none.
int64_t BoundFinder::even_load(std::span<const int64_t> start_loads, uint32_t bins, int64_t total) {
  if (start_loads.empty()) return static_cast<int64_t>(ceil_div(total, bins));
  starts_.assign(start_loads.begin(), start_loads.end());
  OVERLORD_CHECK(starts_.size() == bins, "every bin has a start");
  std::sort(starts_.begin(), starts_.end());
  int64_t sum = total;
  for (size_t used = 0; used < starts_.size(); ++used) {
    sum += starts_[used];
    const auto level = static_cast<int64_t>(ceil_div(sum, static_cast<int64_t>(used + 1)));
    if (used + 1 == starts_.size() || level <= starts_[used + 1]) return level;
  }
  return total;
}

// Of the largest m atoms either two share a bin, or m bins hold one each and the atoms they must be
// filled up with. Both are lightest with the smallest atoms for company. Without a least count this
// is the largest atom alone.
int64_t BoundFinder::largest_with_others(uint32_t bins, uint32_t least_count) const {
  const size_t count = sums_.size() - 1;
  const auto smallest = [&](size_t n) { return sums_[count] - sums_[count - n]; };
  if (least_count < 2) return sums_[1];
  OVERLORD_CHECK(size_t{least_count} * bins <= count, "every bin can have its least count");
  int64_t best = sums_[1] + smallest(least_count - 1);
  for (size_t m = 2; m <= bins; ++m) {
    const int64_t shared = sums_[m] - sums_[m - 2] + smallest(least_count - 2);
    const int64_t apart = sums_[m] + smallest(m * (least_count - 1));
    const auto each = static_cast<int64_t>(ceil_div(apart, static_cast<int64_t>(m)));
    best = std::max(best, std::min(shared, each));
    if (shared <= best) break;  // it only falls from here on
  }
  return best;
}

model::BoundBy bound_by(LoadLimit limit) {
  switch (limit) {
    case LoadLimit::kLargest:
      return model::BoundBy::kLargest;
    case LoadLimit::kPigeonhole:
      return model::BoundBy::kPigeonhole;
    case LoadLimit::kMean:
    case LoadLimit::kStart:
      break;
  }
  return model::BoundBy::kMean;
}

LoadBound BoundFinder::find(std::span<const int64_t> costs, std::span<const uint32_t> atoms,
                            uint32_t bins, std::span<const int64_t> start_loads,
                            uint32_t least_count) {
  const size_t count = costs.size();
  sums_.resize(count + 1);
  sums_[0] = 0;
  OVERLORD_CHECK(bins > 0 && atoms.size() == count, "an atom for every cost");
  for (size_t i = 0; i < count; ++i) {
    OVERLORD_CHECK(i == 0 || costs[i] <= costs[i - 1], "costs fall");
    sums_[i + 1] = sums_[i] + costs[i];
  }

  LoadBound bound{even_load(start_loads, bins, sums_[count]), LoadLimit::kMean, kNoAtom};
  int64_t least_start = 0;
  if (!start_loads.empty()) {
    const auto [least, most] = std::minmax_element(start_loads.begin(), start_loads.end());
    least_start = *least;
    if (*most > bound.load) bound = {*most, LoadLimit::kStart, kNoAtom};
  }
  if (count == 0) return bound;

  const int64_t largest = least_start + largest_with_others(bins, least_count);
  if (largest > bound.load) bound = {largest, LoadLimit::kLargest, atoms[0]};

  for (size_t last = bins, shared = 1; last < count; last += bins, ++shared) {
    const size_t first = last - shared;  // the lightest shared + 1 of the largest last + 1
    const int64_t load = least_start + sums_[last + 1] - sums_[first];
    if (load > bound.load) bound = {load, LoadLimit::kPigeonhole, atoms[first]};
  }
  return bound;
}

}  // namespace overlord::plan
