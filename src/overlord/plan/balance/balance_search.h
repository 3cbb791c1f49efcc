// Local search: takes load out of the fullest bin by moving an atom or swapping two, again and
// again, until nothing helps or the work is used up. Where no single swap helps and bins hold few
// atoms, up to two are given for up to two.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "overlord/plan/balance/atom_order.h"
#include "overlord/plan/balance/balance.h"
#include "overlord/plan/balance/bin_limits.h"

namespace overlord::plan {

class SwapSearch {
 public:
  // Improves `state` until its fullest bin is within 1/16,384 of `goal`. `order` sorts the
  // problem's costs. Gives the operations used: atoms looked at, and bins passed when their order
  // was kept up. The budget is eightfold while the fullest bin is more than 1/1,024 above the goal.
  uint64_t run(const BalanceProblem& problem, const BinLimits& limits, const AtomOrder& order,
               int64_t goal, uint64_t budget, BinState* state);

 private:
  struct Slot {
    int64_t cost;
    uint32_t atom;
  };
  // The atoms of a bin, cost descending: slots_[begin, begin + count).
  struct List {
    uint32_t begin = 0;
    uint32_t count = 0;
    uint32_t capacity = 0;
  };
  struct BinLoad {
    int64_t load;
    uint32_t bin;
  };
  static constexpr uint32_t kNothing = 0xffffffffu;
  // Up to two slots of a bin that change places together; kNothing where there are fewer.
  struct Choice {
    int64_t cost = 0;
    uint32_t first = kNothing;
    uint32_t second = kNothing;
  };
  // Give `out` of the fullest bin for `in` of `bin`.
  struct Exchange {
    bool found = false;
    int64_t off = 0;     // distance of twice the moved load from the difference of the bins
    int64_t result = 0;  // load of the fuller of both bins afterwards
    uint32_t bin = 0;
    uint32_t place = 0;  // of the bin in by_load_
    Choice out;
    Choice in;
  };

  void fill_lists(const AtomOrder& order);
  void sort_bins();
  Exchange look_around(int64_t goal, bool pairs);
  Exchange best_exchange(uint32_t fullest, uint32_t place);
  Exchange best_pair_exchange(uint32_t fullest, uint32_t place);
  void consider(uint32_t fullest, int64_t difference, uint32_t out, uint32_t in, Exchange* best);
  void list_choices(uint32_t bin, std::vector<Choice>* choices);
  bool is_allowed(uint32_t from, uint32_t to, const Choice& out, const Choice& in) const;
  void apply(const Exchange& exchange);
  uint32_t take_all(uint32_t bin, const Choice& choice, Slot* taken);
  void take(uint32_t bin, uint32_t slot);
  void insert(uint32_t bin, Slot slot);
  void reposition(uint32_t place, int64_t load);
  const Slot* slots_of(uint32_t bin) const { return slots_.data() + lists_[bin].begin; }

  const BalanceProblem* problem_ = nullptr;
  const BinLimits* limits_ = nullptr;
  BinState* state_ = nullptr;
  uint64_t operations_ = 0;
  uint64_t budget_ = 0;
  std::vector<Slot> slots_;
  std::vector<List> lists_;
  std::vector<BinLoad> by_load_;  // ascending
  std::vector<Choice> gives_;     // of the fullest bin, cost descending
  std::vector<Choice> takes_;     // of the other one
};

}  // namespace overlord::plan
