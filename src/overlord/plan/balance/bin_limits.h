// What bins hold while atoms are placed, and the rules that say whether one more fits.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "overlord/plan/balance/balance.h"

namespace overlord::plan {

// The limits of a problem with those dropped that cannot bind.
struct BinLimits {
  static BinLimits of(const BalanceProblem& problem);

  bool any() const { return has_sizes || count < std::numeric_limits<uint32_t>::max(); }

  bool has_sizes = false;
  int64_t size = std::numeric_limits<int64_t>::max();
  uint32_t count = std::numeric_limits<uint32_t>::max();
  // Of equal counts: every bin may have `low` atoms, and `wide` bins one more.
  bool equal = false;
  uint32_t low = 0;
  uint32_t wide = 0;
};

// The state of all bins. `bin_of` is by atom.
struct BinState {
  void reset(const BalanceProblem& problem);
  void put(const BalanceProblem& problem, const BinLimits& limits, uint32_t atom, uint32_t bin);

  // Whether a bin takes one more atom of this size.
  bool takes(const BinLimits& limits, uint32_t bin, int64_t size) const {
    return takes_another(limits, bin) && size <= limits.size - sizes[bin];
  }
  bool takes_another(const BinLimits& limits, uint32_t bin) const {
    if (counts[bin] >= limits.count) return false;
    if (!limits.equal || counts[bin] < limits.low) return true;
    return counts[bin] == limits.low && wide_used < limits.wide;
  }
  int64_t room(const BinLimits& limits, uint32_t bin) const { return limits.size - sizes[bin]; }

  std::vector<int64_t> loads;
  std::vector<int64_t> sizes;  // zeros where the problem has no size limit
  std::vector<uint32_t> counts;
  uint32_t wide_used = 0;  // bins with more than `low` atoms, where counts are to be equal
  uint32_t placed = 0;
  std::vector<uint32_t> bin_of;
};

inline int64_t size_of(const BalanceProblem& problem, const BinLimits& limits, uint32_t atom) {
  return limits.has_sizes ? problem.sizes[atom] : 0;
}

}  // namespace overlord::plan
