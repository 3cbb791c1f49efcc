// Balancing inside groups of bins: who a sample may meet is limited, so that what balancing moves
// stays near.
#include <algorithm>
#include <vector>

#include "overlord/base/check.h"
#include "overlord/plan/balance/balance.h"
#include "overlord/plan/balance/bin_limits.h"

namespace overlord::plan {
namespace {

// Deals atoms one after another to the group with the fewest for its width, ties to the lower
// group. Whenever a group is `q` times as full as it is wide, so are all others before it gets
// more: equal counts over all bins stay possible.
class Dealer {
 public:
  Dealer(uint32_t bins, uint32_t group_size)
      : wide_groups_(bins / group_size), width_(group_size), narrow_width_(bins % group_size) {}

  uint32_t next() {
    const uint64_t wide_count = dealt_wide_ / wide_groups_ + 1;
    if (narrow_width_ == 0 || wide_count * narrow_width_ <= (dealt_narrow_ + 1) * width_) {
      return static_cast<uint32_t>(dealt_wide_++ % wide_groups_);
    }
    ++dealt_narrow_;
    return wide_groups_;
  }

 private:
  uint32_t wide_groups_;
  uint64_t width_;
  uint64_t narrow_width_;
  uint64_t dealt_wide_ = 0;
  uint64_t dealt_narrow_ = 0;
};

// The atoms of one group as a problem of its own.
struct Group {
  std::vector<uint32_t> atoms;
  std::vector<int64_t> costs;
  std::vector<int64_t> sizes;
};

std::vector<Group> deal(const BalanceProblem& problem, uint32_t group_size) {
  std::vector<Group> groups((problem.bins + group_size - 1) / group_size);
  Dealer dealer(problem.bins, group_size);
  for (uint32_t atom = 0; atom < problem.costs.size(); ++atom) {
    const uint32_t next = dealer.next();
    OVERLORD_CHECK(next < groups.size(), "an atom is dealt to a group");
    Group& group = groups[next];
    group.atoms.push_back(atom);
    group.costs.push_back(problem.costs[atom]);
    if (!problem.sizes.empty()) group.sizes.push_back(problem.sizes[atom]);
  }
  return groups;
}

BalanceProblem problem_of(const BalanceProblem& whole, const Group& group, uint32_t first_bin,
                          uint32_t width) {
  BalanceProblem part = whole;
  part.costs = group.costs;
  part.sizes = group.sizes;
  part.bins = width;
  if (!whole.start_loads.empty()) part.start_loads = whole.start_loads.subspan(first_bin, width);
  return part;
}

void add_group(const Balanced& part, const Group& group, uint32_t first_bin, Balanced* whole) {
  OVERLORD_CHECK(part.bin_of.size() == group.atoms.size(), "an answer for every atom of the group");
  for (size_t i = 0; i < group.atoms.size(); ++i) {
    if (part.bin_of[i] != kNoBin) whole->bin_of[group.atoms[i]] = first_bin + part.bin_of[i];
  }
  whole->placed_by_size |= part.placed_by_size;
  whole->search_operations += part.search_operations;
  if (part.method != whole->method) whole->method = part.method;
  if (part.lower_bound <= whole->lower_bound && first_bin > 0) return;
  whole->lower_bound = part.lower_bound;
  whole->bound_by = part.bound_by;
  const bool by_atom =
      part.bound_by == LoadLimit::kLargest || part.bound_by == LoadLimit::kPigeonhole;
  whole->limiting_atom = by_atom ? group.atoms[part.limiting_atom] : kNoAtom;
}

// What a group had no room for, into the least loaded bin anywhere that takes it.
void place_left(const BalanceProblem& problem, const BinLimits& limits, BinState* state) {
  for (uint32_t atom = 0; atom < problem.costs.size(); ++atom) {
    if (state->bin_of[atom] != kNoBin) continue;
    const int64_t size = size_of(problem, limits, atom);
    uint32_t best = kNoBin;
    for (uint32_t bin = 0; bin < problem.bins; ++bin) {
      const bool lighter = best == kNoBin || state->loads[bin] < state->loads[best];
      if (lighter && state->takes(limits, bin, size)) best = bin;
    }
    if (best != kNoBin) state->put(problem, limits, atom, best);
  }
}

void add_up(const BalanceProblem& problem, Balanced* out) {
  const BinLimits limits = BinLimits::of(problem);
  BinState state;
  state.reset(problem);
  for (uint32_t atom = 0; atom < problem.costs.size(); ++atom) {
    if (out->bin_of[atom] != kNoBin) state.put(problem, limits, atom, out->bin_of[atom]);
  }
  if (!problem.equal_count) place_left(problem, limits, &state);
  const auto most = std::max_element(state.loads.begin(), state.loads.end());
  out->max_load = *most;
  OVERLORD_CHECK(out->max_load >= out->lower_bound, "no placement is better than its bound");
  out->min_load = *std::min_element(state.loads.begin(), state.loads.end());
  out->fullest_bin = static_cast<uint32_t>(most - state.loads.begin());
  out->bin_of = std::move(state.bin_of);
  uint32_t largest = kNoAtom;
  for (uint32_t atom = 0; atom < problem.costs.size(); ++atom) {
    if (out->bin_of[atom] == kNoBin) {
      out->left.push_back(atom);
      continue;
    }
    out->total += problem.costs[atom];
    if (out->bin_of[atom] != out->fullest_bin) continue;
    if (largest == kNoAtom || problem.costs[atom] > problem.costs[largest]) largest = atom;
  }
  if (out->limiting_atom == kNoAtom) out->limiting_atom = largest;
}

}  // namespace

Result<Balanced> Balancer::run_in_groups(BalanceMethod method, const BalanceProblem& problem,
                                         uint32_t group_size) {
  if (group_size == 0 || group_size >= problem.bins) return run(method, problem);
  OVERLORD_RETURN_IF_ERROR(check_problem(problem));
  Balanced out;
  out.bin_of.assign(problem.costs.size(), kNoBin);
  out.method = method;
  const std::vector<Group> groups = deal(problem, group_size);
  for (uint32_t g = 0; g < groups.size(); ++g) {
    const uint32_t first_bin = g * group_size;
    const uint32_t width = std::min(group_size, problem.bins - first_bin);
    OVERLORD_TRY(const Balanced part,
                 run(method, problem_of(problem, groups[g], first_bin, width)));
    add_group(part, groups[g], first_bin, &out);
  }
  add_up(problem, &out);
  return out;
}

}  // namespace overlord::plan
