#include "overlord/plan/balance/balance.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/plan/balance/atom_order.h"
#include "overlord/plan/balance/balance_bound.h"
#include "overlord/plan/balance/balance_differencing.h"
#include "overlord/plan/balance/balance_search.h"
#include "overlord/plan/balance/bin_limits.h"
#include "overlord/plan/balance/least_loaded_tree.h"

namespace overlord::plan {
namespace {

constexpr int64_t kSumLimit = int64_t{1} << 62;

constexpr std::array<std::string_view, 7> kMethodNames = {
    "arrival", "greedy", "lpt", "lpt_search", "karmarkar_karp", "zigzag", "vector"};
constexpr std::array<std::string_view, 4> kLimitNames = {"mean", "largest", "pigeonhole", "start"};

// Every value >= 0 and their sum, with `sum` before, below 2^62.
Status check_values(std::span<const int64_t> values, const char* what, int64_t* sum) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 0) {
      return invalid_argument(std::string(what) + " " + std::to_string(i) +
                              " is negative: " + std::to_string(values[i]));
    }
    if (values[i] >= kSumLimit - *sum) {
      return invalid_argument(std::string(what) + " " + std::to_string(i) +
                              " brings the sum to 2^62 or more: " + std::to_string(values[i]));
    }
    *sum += values[i];
  }
  return {};
}

}  // namespace

std::string_view balance_method_name(BalanceMethod method) {
  return kMethodNames[static_cast<size_t>(method)];
}

std::string_view load_limit_name(LoadLimit limit) {
  return kLimitNames[static_cast<size_t>(limit)];
}

Result<BalanceMethod> parse_balance_method(std::string_view name) {
  std::string known;
  for (size_t i = 0; i < kMethodNames.size(); ++i) {
    if (kMethodNames[i] == name) return static_cast<BalanceMethod>(i);
    known += (i == 0 ? "" : ", ") + std::string(kMethodNames[i]);
  }
  return invalid_argument("unknown balance method (known: " + known + "): " + std::string(name));
}

uint64_t usual_search_budget(uint64_t atoms, uint64_t bins) {
  return 16 * atoms + 512 * bins + 20'000;
}

Status check_problem(const BalanceProblem& problem) {
  if (problem.bins == 0) return invalid_argument("balancing needs at least one bin, bins: 0");
  if (problem.bins >= kNoBin / 2) {
    return invalid_argument("too many bins: " + std::to_string(problem.bins));
  }
  if (problem.costs.size() >= kNoAtom) {
    return invalid_argument("too many atoms: " + std::to_string(problem.costs.size()));
  }
  int64_t costs = 0, sizes = 0;
  OVERLORD_RETURN_IF_ERROR(check_values(problem.start_loads, "start load", &costs));
  OVERLORD_RETURN_IF_ERROR(check_values(problem.costs, "cost", &costs));
  OVERLORD_RETURN_IF_ERROR(check_values(problem.sizes, "size", &sizes));
  if (!problem.start_loads.empty() && problem.start_loads.size() != problem.bins) {
    return invalid_argument("start loads must be one for each of " + std::to_string(problem.bins) +
                            " bins, given: " + std::to_string(problem.start_loads.size()));
  }
  if (!problem.sizes.empty() && problem.sizes.size() != problem.costs.size()) {
    return invalid_argument("sizes must be one for each of " +
                            std::to_string(problem.costs.size()) +
                            " costs, given: " + std::to_string(problem.sizes.size()));
  }
  if (problem.size_limit < 0) {
    return invalid_argument("size limit is negative: " + std::to_string(problem.size_limit));
  }
  if (problem.size_limit > 0 && problem.sizes.empty() && !problem.costs.empty()) {
    return invalid_argument("a size limit without sizes: " + std::to_string(problem.size_limit));
  }
  return {};
}

// One problem at a time: the parts of a run share what it has sorted and placed.
struct Balancer::Scratch {
  void place_in_turn(std::span<const uint32_t> atoms, bool there_and_back);
  void place_least_loaded(std::span<const uint32_t> atoms);
  void place_differencing();
  void place_best_fit();
  void place(BalanceMethod method);
  LoadBound bound();
  void search();
  Balanced answer(BalanceMethod method);
  Balanced run(BalanceMethod method, const BalanceProblem& given);
  std::span<const uint32_t> arrival_order();
  void put(uint32_t atom, uint32_t bin) { state.put(*problem, limits, atom, bin); }
  int64_t atom_size(uint32_t atom) const { return size_of(*problem, limits, atom); }

  const BalanceProblem* problem = nullptr;
  BinLimits limits;
  BinState state;
  AtomOrder by_cost;
  uint64_t operations = 0;
  bool placed_by_size = false;

  AtomOrder by_size;
  BinState first_try;
  LeastLoadedTree tree;
  BoundFinder bound_finder;
  SwapSearch swap_search;
  Differencing differencing;
  std::vector<uint32_t> arrival;
  std::vector<int64_t> rooms;
  std::vector<std::pair<int64_t, uint32_t>> bins_by_room;
  std::vector<int64_t> placed_costs;
  std::vector<uint32_t> placed_atoms;
};

std::span<const uint32_t> Balancer::Scratch::arrival_order() {
  arrival.resize(problem->costs.size());
  for (uint32_t i = 0; i < arrival.size(); ++i) arrival[i] = i;
  return arrival;
}

// Round robin, or there and back; a bin that takes no more is passed over.
void Balancer::Scratch::place_in_turn(std::span<const uint32_t> atoms, bool there_and_back) {
  const uint32_t cycle = there_and_back ? 2 * problem->bins : problem->bins;
  uint32_t turn = 0;
  for (const uint32_t atom : atoms) {
    const int64_t size = atom_size(atom);
    for (uint32_t tries = 0; tries < cycle; ++tries) {
      const uint32_t at = turn + tries < cycle ? turn + tries : turn + tries - cycle;
      const uint32_t bin = at < problem->bins ? at : cycle - 1 - at;
      if (!state.takes(limits, bin, size)) continue;
      put(atom, bin);
      turn = at + 1 < cycle ? at + 1 : 0;
      break;
    }
  }
}

void Balancer::Scratch::place_least_loaded(std::span<const uint32_t> atoms) {
  rooms.clear();
  if (limits.has_sizes) rooms.assign(problem->bins, limits.size);
  tree.reset(state.loads, rooms);
  bool wide_open = true;
  for (uint32_t bin = 0; bin < problem->bins; ++bin) {
    if (!state.takes_another(limits, bin)) tree.close(bin);
  }
  for (const uint32_t atom : atoms) {
    const int64_t size = atom_size(atom);
    const uint32_t bin = limits.has_sizes ? tree.least_with_room(size) : tree.least();
    if (bin == kNoBin) continue;
    put(atom, bin);
    if (state.takes_another(limits, bin)) {
      tree.set(bin, state.loads[bin]);
    } else {
      tree.close(bin);
    }
    if (limits.has_sizes) tree.set_room(bin, state.room(limits, bin));
    if (limits.equal && wide_open && state.wide_used == limits.wide) {
      wide_open = false;  // from now on `low` atoms are all that a bin takes
      for (uint32_t other = 0; other < problem->bins; ++other) {
        if (!state.takes_another(limits, other)) tree.close(other);
      }
    }
  }
}

void Balancer::Scratch::place_differencing() {
  differencing.run(by_cost, problem->bins, problem->equal_count, state.bin_of);
  for (uint32_t atom = 0; atom < state.bin_of.size(); ++atom) {
    OVERLORD_CHECK(state.bin_of[atom] < problem->bins, "differencing places every atom");
    put(atom, state.bin_of[atom]);
  }
}

// Largest size first, where the least room remains.
void Balancer::Scratch::place_best_fit() {
  by_size.sort(problem->sizes);
  bins_by_room.clear();
  for (uint32_t bin = 0; bin < problem->bins; ++bin) bins_by_room.emplace_back(limits.size, bin);
  for (size_t i = 0; i < by_size.size(); ++i) {
    const uint32_t atom = by_size.atoms()[i];
    const int64_t size = by_size.values()[i];
    auto at = std::lower_bound(bins_by_room.begin(), bins_by_room.end(),
                               std::pair<int64_t, uint32_t>(size, 0));
    while (at != bins_by_room.end() && !state.takes_another(limits, at->second)) ++at;
    if (at == bins_by_room.end()) continue;
    const uint32_t bin = at->second;
    OVERLORD_CHECK(state.room(limits, bin) >= size, "bins are sorted by the room they have");
    put(atom, bin);
    if (!state.takes_another(limits, bin)) {
      bins_by_room.erase(at);
      continue;
    }
    const std::pair<int64_t, uint32_t> now(state.room(limits, bin), bin);
    const auto to = std::lower_bound(bins_by_room.begin(), at, now);
    std::move_backward(to, at, at + 1);
    *to = now;
  }
}

void Balancer::Scratch::place(BalanceMethod method) {
  switch (method) {
    case BalanceMethod::kArrival:
      return place_in_turn(arrival_order(), false);
    case BalanceMethod::kGreedy:
      return place_least_loaded(arrival_order());
    case BalanceMethod::kLpt:
    case BalanceMethod::kLptSearch:
    case BalanceMethod::kVector:
      return place_least_loaded(by_cost.atoms());
    case BalanceMethod::kKarmarkarKarp:
      return place_differencing();
    case BalanceMethod::kZigzag:
      return place_in_turn(by_cost.atoms(), true);
  }
}

// Of the atoms that have a bin: what is left over must not raise it.
LoadBound Balancer::Scratch::bound() {
  if (state.placed == by_cost.size()) {
    return bound_finder.find(by_cost.values(), by_cost.atoms(), problem->bins, problem->start_loads,
                             limits.equal ? limits.low : 0);
  }
  placed_costs.clear();
  placed_atoms.clear();
  for (size_t i = 0; i < by_cost.size(); ++i) {
    if (state.bin_of[by_cost.atoms()[i]] == kNoBin) continue;
    placed_costs.push_back(by_cost.values()[i]);
    placed_atoms.push_back(by_cost.atoms()[i]);
  }
  return bound_finder.find(placed_costs, placed_atoms, problem->bins, problem->start_loads, 0);
}

void Balancer::Scratch::search() {
  const uint64_t budget = problem->search_budget > 0
                              ? problem->search_budget
                              : usual_search_budget(problem->costs.size(), problem->bins);
  const int64_t fullest = *std::max_element(state.loads.begin(), state.loads.end());
  operations += swap_search.run(*problem, limits, by_cost, bound().load, budget, &state);
  OVERLORD_CHECK(*std::max_element(state.loads.begin(), state.loads.end()) <= fullest,
                 "searching never fills the fullest bin");
}

Balanced Balancer::Scratch::run(BalanceMethod method, const BalanceProblem& given) {
  problem = &given;
  limits = BinLimits::of(given);
  operations = 0;
  placed_by_size = false;
  const bool starts = std::any_of(given.start_loads.begin(), given.start_loads.end(),
                                  [](int64_t load) { return load > 0; });
  if (method == BalanceMethod::kKarmarkarKarp && (limits.any() || starts)) {
    method = BalanceMethod::kLptSearch;
  }
  by_cost.sort(given.costs);
  state.reset(given);
  place(method);
  if (state.placed < given.costs.size() && limits.has_sizes) {
    std::swap(state, first_try);
    state.reset(given);
    place_best_fit();
    placed_by_size = state.placed > first_try.placed;
    if (!placed_by_size) std::swap(state, first_try);
  }
  const bool searches = method == BalanceMethod::kLptSearch || method == BalanceMethod::kVector;
  if (searches || placed_by_size) search();
  return answer(method);
}

Balanced Balancer::Scratch::answer(BalanceMethod method) {
  Balanced out;
  out.method = method;
  out.placed_by_size = placed_by_size;
  out.search_operations = operations;
  for (uint32_t atom = 0; atom < state.bin_of.size(); ++atom) {
    if (state.bin_of[atom] == kNoBin) {
      out.left.push_back(atom);
    } else {
      out.total += problem->costs[atom];
    }
  }
  const auto most = std::max_element(state.loads.begin(), state.loads.end());
  out.max_load = *most;
  out.min_load = *std::min_element(state.loads.begin(), state.loads.end());
  out.fullest_bin = static_cast<uint32_t>(most - state.loads.begin());
  const LoadBound least = bound();
  out.lower_bound = least.load;
  out.bound_by = least.by;
  out.limiting_atom = least.atom;
  OVERLORD_CHECK(out.lower_bound <= out.max_load, "no placement is better than its bound");
  const auto sum = [](std::span<const int64_t> values) {
    return std::accumulate(values.begin(), values.end(), int64_t{0});
  };
  OVERLORD_CHECK(sum(state.loads) == sum(problem->start_loads) + out.total,
                 "bins hold what was placed and no more");
  OVERLORD_CHECK(state.placed + out.left.size() == state.bin_of.size(),
                 "an atom has a bin or is left over");
  if (least.atom == kNoAtom) {
    const auto in_fullest = [&](uint32_t atom) { return state.bin_of[atom] == out.fullest_bin; };
    const auto atoms = by_cost.atoms();
    const auto largest = std::find_if(atoms.begin(), atoms.end(), in_fullest);
    if (largest != atoms.end()) out.limiting_atom = *largest;
  }
  out.bin_of = state.bin_of;
  return out;
}

Balancer::Balancer() : scratch_(std::make_unique<Scratch>()) {}
Balancer::~Balancer() = default;
Balancer::Balancer(Balancer&&) noexcept = default;
Balancer& Balancer::operator=(Balancer&&) noexcept = default;

Result<Balanced> Balancer::run(BalanceMethod method, const BalanceProblem& problem) {
  OVERLORD_RETURN_IF_ERROR(check_problem(problem));
  return scratch_->run(method, problem);
}

}  // namespace overlord::plan
