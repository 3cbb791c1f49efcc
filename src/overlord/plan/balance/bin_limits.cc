#include "overlord/plan/balance/bin_limits.h"

#include <algorithm>
#include <numeric>

#include "overlord/base/check.h"

namespace overlord::plan {

BinLimits BinLimits::of(const BalanceProblem& problem) {
  OVERLORD_CHECK(problem.bins > 0, "atoms go into bins");
  BinLimits limits;
  const size_t atoms = problem.costs.size();
  if (problem.size_limit > 0) {
    const int64_t all = std::accumulate(problem.sizes.begin(), problem.sizes.end(), int64_t{0});
    limits.has_sizes = all > problem.size_limit;
    if (limits.has_sizes) limits.size = problem.size_limit;
  }
  if (problem.count_limit > 0 && problem.count_limit < atoms) limits.count = problem.count_limit;
  limits.equal = problem.equal_count;
  if (limits.equal) {
    const uint64_t places = uint64_t{problem.bins} * limits.count;
    const uint64_t placed = std::min<uint64_t>(atoms, places);
    limits.low = static_cast<uint32_t>(placed / problem.bins);
    limits.wide = static_cast<uint32_t>(placed % problem.bins);
    if (placed == atoms) limits.count = std::numeric_limits<uint32_t>::max();
  }
  return limits;
}

void BinState::reset(const BalanceProblem& problem) {
  if (problem.start_loads.empty()) {
    loads.assign(problem.bins, 0);
  } else {
    loads.assign(problem.start_loads.begin(), problem.start_loads.end());
  }
  sizes.assign(problem.bins, 0);
  counts.assign(problem.bins, 0);
  wide_used = 0;
  placed = 0;
  bin_of.assign(problem.costs.size(), kNoBin);
}

void BinState::put(const BalanceProblem& problem, const BinLimits& limits, uint32_t atom,
                   uint32_t bin) {
  OVERLORD_CHECK(bin < loads.size() && placed < bin_of.size(), "an atom goes into a bin once");
  loads[bin] += problem.costs[atom];
  sizes[bin] += size_of(problem, limits, atom);
  if (++counts[bin] > limits.low && limits.equal) ++wide_used;
  bin_of[atom] = bin;
  OVERLORD_CHECK(sizes[bin] <= limits.size && counts[bin] <= limits.count,
                 "a bin keeps to its limits");
  ++placed;
}

}  // namespace overlord::plan
