// Balancing of atoms with several costs (an encoder's and a backbone's, say) and one owner each, so
// that every kind of cost is spread evenly at once.
//
// Loads are compared as parts of their own lower bounds. Atoms are placed largest first, each where
// the largest such part is least; then moves and swaps lower the fullest bin of one kind without
// raising the fullest of any other.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/plan/balance/balance.h"

namespace overlord::plan {

struct VectorProblem {
  std::span<const std::span<const int64_t>> costs;  // by kind; rules of BalanceProblem::costs
  std::span<const int64_t> sizes;
  uint32_t bins = 1;
  int64_t size_limit = 0;
  uint32_t count_limit = 0;
  uint64_t search_budget = 0;  // pairs of atoms looked at; 0: a usual amount
};

struct KindOfLoad {
  int64_t max_load = 0;
  int64_t min_load = 0;
  int64_t total = 0;  // max over mean is max_load * bins / total
  LoadBound bound;    // of this kind alone
};

struct VectorBalanced {
  std::vector<uint32_t> bin_of;  // by atom; kNoBin where the limits leave no room
  std::vector<uint32_t> left;
  std::vector<KindOfLoad> kinds;
  uint64_t search_operations = 0;
};

class VectorBalancer {
 public:
  VectorBalancer();
  ~VectorBalancer();
  VectorBalancer(VectorBalancer&&) noexcept;
  VectorBalancer& operator=(VectorBalancer&&) noexcept;

  Result<VectorBalanced> vector_lpt(const VectorProblem& problem);

 private:
  struct Scratch;
  std::unique_ptr<Scratch> scratch_;
};

}  // namespace overlord::plan
