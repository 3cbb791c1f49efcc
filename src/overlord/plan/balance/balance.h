// Balancing: atoms with costs onto bins, so that the fullest bin is as light as can be.
//
// Everything is a pure function of the problem: integers only, ties go to the lower bin and then to
// the lower atom, and work is limited by counted operations, never by time. Every answer says how
// far it can be from the best one (`lower_bound`) and what keeps it from being better (`bound_by`):
// a bound set by one atom calls for splitting or delaying it, not for a better balancer.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/model/strategy.h"

namespace overlord::plan {

inline constexpr uint32_t kNoBin = 0xffffffffu;
inline constexpr uint32_t kNoAtom = 0xffffffffu;

using model::BalanceMethod;

std::string_view balance_method_name(BalanceMethod method);
// "arrival", "greedy", "lpt", "lpt_search", "karmarkar_karp", "zigzag", "vector".
Result<BalanceMethod> parse_balance_method(std::string_view name);

struct BalanceProblem {
  std::span<const int64_t> costs = {};  // one per atom, >= 0; with `start_loads` below 2^62 in sum
  std::span<const int64_t> sizes = {};  // what an atom takes of a bin's limit (tokens, bytes)
  uint32_t bins = 1;
  int64_t size_limit = 0;    // per bin; 0: none
  uint32_t count_limit = 0;  // most atoms of a bin; 0: none
  // Bins differ by at most one atom. Kept by every method as long as no atom is left over.
  bool equal_count = false;
  std::span<const int64_t> start_loads = {};  // what each bin has to do already; empty: nothing
  uint64_t search_budget = 0;  // operations (balance_search.h); 0: usual_search_budget()
};

// Some milliseconds for 32,768 atoms on 1,024 bins; most problems end earlier by themselves.
uint64_t usual_search_budget(uint64_t atoms, uint64_t bins);

// What the lower bound of the fullest bin comes from.
enum class LoadLimit : uint8_t {
  kMean,        // the load shared out evenly (over bins that are not fuller from the start)
  kLargest,     // one atom, with the fewest others its bin must hold
  kPigeonhole,  // of the largest j * bins + 1 atoms some bin gets j + 1
  kStart,       // a load that was there before
};

std::string_view load_limit_name(LoadLimit limit);

struct LoadBound {
  int64_t load = 0;
  LoadLimit by = LoadLimit::kMean;
  uint32_t atom = kNoAtom;  // of kLargest that atom, of kPigeonhole the largest that must share
};

struct Balanced {
  std::vector<uint32_t> bin_of;  // by atom; kNoBin where the limits leave no room
  std::vector<uint32_t> left;    // those atoms, ascending
  int64_t max_load = 0;          // start loads included
  int64_t min_load = 0;
  int64_t total = 0;        // cost of the atoms that have a bin
  int64_t lower_bound = 0;  // no placement of these atoms has a lighter fullest bin
  LoadLimit bound_by = LoadLimit::kMean;
  uint32_t fullest_bin = kNoBin;
  // The atom that sets the bound; where none does, the largest atom of the fullest bin.
  uint32_t limiting_atom = kNoAtom;
  BalanceMethod method = BalanceMethod::kArrival;  // what was used: see Balancer::run
  bool placed_by_size = false;                     // the method left atoms over, best fit fewer
  uint64_t search_operations = 0;
};

// Refuses a problem that breaks a rule above, naming the atom or bin that does.
Status check_problem(const BalanceProblem& problem);

// Keeps its memory between calls; answers depend on the problem alone.
class Balancer {
 public:
  Balancer();
  ~Balancer();
  Balancer(Balancer&&) noexcept;
  Balancer& operator=(Balancer&&) noexcept;

  // Karmarkar-Karp knows neither limits nor start loads; where those matter LPT with search is used
  // instead and `method` says so. Where a method leaves atoms over, all atoms are placed anew,
  // largest size first, each where the least room remains, then searched; this is kept when fewer
  // are left.
  Result<Balanced> run(BalanceMethod method, const BalanceProblem& problem);

  // Bins in groups of `group_size` (the last may be narrower); atoms are dealt to groups in arrival
  // order in proportion to width and balanced inside their group. The bound is that of the dealt
  // groups. 0 or >= bins: one group. 1: no balancing. What a group has no room for goes to the
  // least loaded bin anywhere that takes it, unless counts are to be equal.
  Result<Balanced> run_in_groups(BalanceMethod method, const BalanceProblem& problem,
                                 uint32_t group_size);

 private:
  struct Scratch;
  std::unique_ptr<Scratch> scratch_;
};

}  // namespace overlord::plan
