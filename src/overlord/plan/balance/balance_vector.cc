#include "overlord/plan/balance/balance_vector.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <string>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/base/fixed_point.h"
#include "overlord/plan/balance/atom_order.h"
#include "overlord/plan/balance/balance_bound.h"
#include "overlord/plan/balance/bin_limits.h"

namespace overlord::plan {
namespace {

constexpr int64_t kFull = std::numeric_limits<int64_t>::max();
constexpr uint32_t kBlock = 32;  // bins whose least loads are kept together
// Bins that are tried for one exchange before all are.
constexpr uint32_t kFirstBins = 16;
constexpr uint32_t kNothing = 0xffffffffu;

struct KindSwap {
  bool found = false;
  int64_t result = 0;  // load of the fuller of both bins afterwards, in the kind that is lowered
  uint32_t to = 0;
  uint32_t out = 0;  // places in the bins' lists
  uint32_t in = 0;
};

}  // namespace

// Costs here are scaled so that the lower bound of each kind is `one`: sums compare across kinds.
struct VectorBalancer::Scratch {
  void scale(const VectorProblem& problem);
  void reset();
  void place(std::span<const uint32_t> atoms);
  uint32_t lightest_bin(uint32_t atom);
  void scan_block(uint32_t block, uint32_t atom, int64_t size, uint32_t* best, int64_t* load);
  void put(uint32_t atom, uint32_t bin);
  void search(uint64_t budget);
  bool lower(uint32_t kind, uint64_t budget);
  void look_at(uint32_t kind, uint32_t from, uint32_t to, KindSwap* best);
  bool is_allowed(uint32_t kind, uint32_t from, uint32_t to, uint32_t out, uint32_t in) const;
  void apply(uint32_t from, const KindSwap& exchange);
  void shift(uint32_t atom, uint32_t from, uint32_t to);
  VectorBalanced answer(const VectorProblem& problem);

  BalanceProblem base_;  // limits and sizes; its costs are the largest scaled cost of each atom
  BinLimits limits_;
  BinState state_;  // its loads are not used
  int64_t one_ = 0;
  std::vector<LoadBound> bounds_;
  std::vector<std::vector<int64_t>> costs_;  // by kind, scaled
  std::vector<std::vector<int64_t>> loads_;  // by kind and bin, scaled
  std::vector<std::vector<int64_t>> least_;  // by kind and block of bins
  std::vector<int64_t> caps_;                // by kind: the fullest bin
  std::vector<int64_t> largest_;             // by atom, over kinds
  std::vector<std::vector<uint32_t>> atoms_of_;
  std::vector<std::pair<int64_t, uint32_t>> candidates_;
  uint64_t operations_ = 0;
  AtomOrder order_;
  BoundFinder bound_finder_;
};

void VectorBalancer::Scratch::scale(const VectorProblem& problem) {
  const size_t kinds = problem.costs.size();
  const size_t atoms = problem.costs[0].size();
  // All scaled costs of a kind add up to at most bins * one.
  one_ = int64_t{1} << std::min(40, 60 - static_cast<int>(std::bit_width(problem.bins)));
  OVERLORD_CHECK(one_ > 0, "loads of a kind fit 64 bits");
  bounds_.clear();
  costs_.resize(kinds);
  largest_.assign(atoms, 0);
  for (size_t kind = 0; kind < kinds; ++kind) {
    order_.sort(problem.costs[kind]);
    bounds_.push_back(bound_finder_.find(order_.values(), order_.atoms(), problem.bins, {}, 0));
    const int64_t bound = std::max<int64_t>(bounds_[kind].load, 1);
    costs_[kind].resize(atoms);
    for (size_t i = 0; i < atoms; ++i) {
      costs_[kind][i] = mul_div_floor(problem.costs[kind][i], one_, bound);
      largest_[i] = std::max(largest_[i], costs_[kind][i]);
    }
  }
  base_ = {};
  base_.costs = largest_;
  base_.sizes = problem.sizes;
  base_.bins = problem.bins;
  base_.size_limit = problem.size_limit;
  base_.count_limit = problem.count_limit;
  limits_ = BinLimits::of(base_);
}

void VectorBalancer::Scratch::reset() {
  state_.reset(base_);
  loads_.resize(costs_.size());
  least_.resize(costs_.size());
  for (auto& loads : loads_) loads.assign(base_.bins, 0);
  for (auto& least : least_) least.assign((base_.bins + kBlock - 1) / kBlock, 0);
}

void VectorBalancer::Scratch::put(uint32_t atom, uint32_t bin) {
  state_.put(base_, limits_, atom, bin);
  const uint32_t first = bin / kBlock * kBlock;
  const uint32_t last = std::min(first + kBlock, base_.bins);
  for (size_t kind = 0; kind < costs_.size(); ++kind) {
    std::vector<int64_t>& loads = loads_[kind];
    const bool was_least = loads[bin] == least_[kind][bin / kBlock];
    loads[bin] += costs_[kind][atom];
    if (!was_least) continue;
    least_[kind][bin / kBlock] = *std::min_element(loads.begin() + first, loads.begin() + last);
  }
}

void VectorBalancer::Scratch::scan_block(uint32_t block, uint32_t atom, int64_t size,
                                         uint32_t* best, int64_t* load) {
  const uint32_t last = std::min((block + 1) * kBlock, base_.bins);
  for (uint32_t bin = block * kBlock; bin < last; ++bin) {
    int64_t most = 0;
    for (size_t kind = 0; kind < costs_.size(); ++kind) {
      most = std::max(most, loads_[kind][bin] + costs_[kind][atom]);
    }
    if (most > *load || (most == *load && bin >= *best)) continue;
    if (!state_.takes(limits_, bin, size)) continue;
    *load = most;
    *best = bin;
  }
}

// The bin whose largest load is least with the atom in it. Blocks whose least loads are no better
// than what was found are left out; the most promising block goes first.
uint32_t VectorBalancer::Scratch::lightest_bin(uint32_t atom) {
  const auto blocks = static_cast<uint32_t>(least_[0].size());
  const auto promise = [&](uint32_t block) {
    int64_t most = 0;
    for (size_t kind = 0; kind < costs_.size(); ++kind) {
      most = std::max(most, least_[kind][block] + costs_[kind][atom]);
    }
    return most;
  };
  uint32_t first = 0;
  for (uint32_t block = 1; block < blocks; ++block) {
    if (promise(block) < promise(first)) first = block;
  }
  const int64_t size = size_of(base_, limits_, atom);
  uint32_t best = kNoBin;
  int64_t load = kFull;
  scan_block(first, atom, size, &best, &load);
  for (uint32_t block = 0; block < blocks; ++block) {
    if (block == first) continue;
    const int64_t least = promise(block);
    if (least > load || (least == load && block * kBlock > best)) continue;
    scan_block(block, atom, size, &best, &load);
  }
  return best;
}

void VectorBalancer::Scratch::place(std::span<const uint32_t> atoms) {
  reset();
  for (const uint32_t atom : atoms) {
    const uint32_t bin = lightest_bin(atom);
    if (bin != kNoBin) put(atom, bin);
  }
}

// Lowers the kind that is furthest above its bound, until none can be lowered.
void VectorBalancer::Scratch::search(uint64_t budget) {
  operations_ = 0;
  if (base_.bins < 2) return;
  atoms_of_.resize(std::max<size_t>(atoms_of_.size(), base_.bins));
  for (auto& atoms : atoms_of_) atoms.clear();
  for (uint32_t atom = 0; atom < state_.bin_of.size(); ++atom) {
    if (state_.bin_of[atom] != kNoBin) atoms_of_[state_.bin_of[atom]].push_back(atom);
  }
  caps_.clear();
  for (const auto& loads : loads_) caps_.push_back(*std::max_element(loads.begin(), loads.end()));
  std::vector<bool> stuck(caps_.size(), false);
  while (operations_ < budget) {
    uint32_t kind = kNothing;
    for (uint32_t k = 0; k < caps_.size(); ++k) {
      if (stuck[k] || caps_[k] <= one_) continue;
      if (kind == kNothing || caps_[k] > caps_[kind]) kind = k;
    }
    if (kind == kNothing) return;
    if (lower(kind, budget)) {
      stuck.assign(caps_.size(), false);
    } else {
      stuck[kind] = true;
    }
  }
}

// One exchange out of the fullest bin of a kind, first with the bins that have least of it.
bool VectorBalancer::Scratch::lower(uint32_t kind, uint64_t budget) {
  const std::vector<int64_t>& loads = loads_[kind];
  const auto fullest = std::max_element(loads.begin(), loads.end());
  const auto from = static_cast<uint32_t>(fullest - loads.begin());
  caps_[kind] = *fullest;
  candidates_.clear();
  for (uint32_t bin = 0; bin < base_.bins; ++bin) {
    if (loads[bin] + 1 < *fullest) candidates_.emplace_back(loads[bin], bin);
  }
  operations_ += base_.bins / 8;
  const size_t near = std::min<size_t>(kFirstBins, candidates_.size());
  std::partial_sort(candidates_.begin(), candidates_.begin() + near, candidates_.end());
  const int64_t enough = one_ + (caps_[kind] - one_) / 2;
  KindSwap best;
  for (size_t i = 0; i < candidates_.size() && operations_ < budget; ++i) {
    if (i == near && best.found) break;
    look_at(kind, from, candidates_[i].second, &best);
    if (best.found && best.result <= enough) break;
  }
  if (!best.found) return false;
  apply(from, best);
  OVERLORD_CHECK(std::max(loads[from], loads[best.to]) == best.result,
                 "an exchange does what it promised");
  caps_[kind] = *std::max_element(loads.begin(), loads.end());
  return true;
}

void VectorBalancer::Scratch::look_at(uint32_t kind, uint32_t from, uint32_t to, KindSwap* best) {
  const std::vector<uint32_t>& gives = atoms_of_[from];
  const std::vector<uint32_t>& takes = atoms_of_[to];
  const int64_t from_load = loads_[kind][from], to_load = loads_[kind][to];
  const int64_t worst = caps_[kind];
  for (uint32_t out = 0; out < gives.size(); ++out) {
    const int64_t give = costs_[kind][gives[out]];
    for (uint32_t in = 0; in <= takes.size(); ++in) {
      const int64_t moved = give - (in < takes.size() ? costs_[kind][takes[in]] : 0);
      const int64_t result = std::max(from_load - moved, to_load + moved);
      if (result >= (best->found ? best->result : worst)) continue;
      const uint32_t in_atom = in < takes.size() ? takes[in] : kNoAtom;
      if (!is_allowed(kind, from, to, gives[out], in_atom)) continue;
      *best = {true, result, to, out, in < takes.size() ? in : kNothing};
    }
  }
  operations_ += gives.size() * (takes.size() + 1);
}

// Limits hold, and no other kind gets a fuller bin than its fullest.
bool VectorBalancer::Scratch::is_allowed(uint32_t kind, uint32_t from, uint32_t to, uint32_t out,
                                         uint32_t in) const {
  if (in == kNoAtom && state_.counts[to] >= limits_.count) return false;
  for (uint32_t other = 0; other < costs_.size(); ++other) {
    if (other == kind) continue;
    const int64_t moved = costs_[other][out] - (in == kNoAtom ? 0 : costs_[other][in]);
    if (loads_[other][to] + moved > caps_[other]) return false;
    if (loads_[other][from] - moved > caps_[other]) return false;
  }
  if (!limits_.has_sizes) return true;
  const int64_t moved = base_.sizes[out] - (in == kNoAtom ? 0 : base_.sizes[in]);
  return moved <= state_.room(limits_, to) && -moved <= state_.room(limits_, from);
}

void VectorBalancer::Scratch::shift(uint32_t atom, uint32_t from, uint32_t to) {
  for (size_t kind = 0; kind < costs_.size(); ++kind) {
    loads_[kind][from] -= costs_[kind][atom];
    loads_[kind][to] += costs_[kind][atom];
  }
  OVERLORD_CHECK(state_.bin_of[atom] == from && state_.counts[from] > 0,
                 "what moves is where it was");
  const int64_t size = size_of(base_, limits_, atom);
  state_.sizes[from] -= size;
  state_.sizes[to] += size;
  --state_.counts[from];
  ++state_.counts[to];
  state_.bin_of[atom] = to;
}

void VectorBalancer::Scratch::apply(uint32_t from, const KindSwap& exchange) {
  std::vector<uint32_t>& gives = atoms_of_[from];
  std::vector<uint32_t>& takes = atoms_of_[exchange.to];
  shift(gives[exchange.out], from, exchange.to);
  if (exchange.in != kNothing) {
    shift(takes[exchange.in], exchange.to, from);
    std::swap(gives[exchange.out], takes[exchange.in]);
    return;
  }
  takes.push_back(gives[exchange.out]);
  gives.erase(gives.begin() + exchange.out);
}

VectorBalanced VectorBalancer::Scratch::answer(const VectorProblem& problem) {
  VectorBalanced out;
  out.search_operations = operations_;
  out.bin_of = state_.bin_of;
  std::vector<int64_t> placed;
  for (uint32_t atom = 0; atom < out.bin_of.size(); ++atom) {
    if (out.bin_of[atom] == kNoBin) out.left.push_back(atom);
  }
  for (size_t kind = 0; kind < problem.costs.size(); ++kind) {
    KindOfLoad load;
    std::vector<int64_t> loads(problem.bins, 0);
    placed.assign(problem.costs[kind].begin(), problem.costs[kind].end());
    for (uint32_t atom = 0; atom < out.bin_of.size(); ++atom) {
      if (out.bin_of[atom] == kNoBin) {
        placed[atom] = 0;
      } else {
        loads[out.bin_of[atom]] += placed[atom];
        load.total += placed[atom];
      }
    }
    load.max_load = *std::max_element(loads.begin(), loads.end());
    load.min_load = *std::min_element(loads.begin(), loads.end());
    load.bound = bounds_[kind];
    if (!out.left.empty()) {  // what is left over must not raise the bound
      order_.sort(placed);
      load.bound = bound_finder_.find(order_.values(), order_.atoms(), problem.bins, {}, 0);
    }
    OVERLORD_CHECK(load.bound.load <= load.max_load, "no placement is better than its bound");
    out.kinds.push_back(load);
  }
  return out;
}

VectorBalancer::VectorBalancer() : scratch_(std::make_unique<Scratch>()) {}
VectorBalancer::~VectorBalancer() = default;
VectorBalancer::VectorBalancer(VectorBalancer&&) noexcept = default;
VectorBalancer& VectorBalancer::operator=(VectorBalancer&&) noexcept = default;

Result<VectorBalanced> VectorBalancer::vector_lpt(const VectorProblem& problem) {
  if (problem.costs.empty()) return invalid_argument("vector balance without any kind of cost");
  for (size_t kind = 0; kind < problem.costs.size(); ++kind) {
    const std::string name = "kind " + std::to_string(kind);
    if (problem.costs[kind].size() != problem.costs[0].size()) {
      return invalid_argument("costs must be as many as those of kind 0, of " + name + ": " +
                              std::to_string(problem.costs[kind].size()));
    }
    BalanceProblem one;
    one.costs = problem.costs[kind];
    one.sizes = problem.sizes;
    one.bins = problem.bins;
    one.size_limit = problem.size_limit;
    const Status status = check_problem(one);
    if (!status.ok()) return status.with_context(name);
  }
  Scratch& scratch = *scratch_;
  scratch.scale(problem);
  scratch.order_.sort(scratch.largest_);
  scratch.place(scratch.order_.atoms());
  if (scratch.state_.placed < scratch.largest_.size() && scratch.limits_.has_sizes) {
    const std::vector<uint32_t> bin_of = scratch.state_.bin_of;
    const uint32_t placed = scratch.state_.placed;
    scratch.order_.sort(problem.sizes);
    scratch.place(scratch.order_.atoms());
    if (scratch.state_.placed <= placed) {  // no better: the first placement again
      scratch.reset();
      for (uint32_t atom = 0; atom < bin_of.size(); ++atom) {
        if (bin_of[atom] != kNoBin) scratch.put(atom, bin_of[atom]);
      }
    }
  }
  scratch.search(problem.search_budget > 0
                     ? problem.search_budget
                     : 4 * usual_search_budget(scratch.largest_.size(), problem.bins));
  return scratch.answer(problem);
}

}  // namespace overlord::plan
