// Karmarkar-Karp: largest differencing over k bins.
//
// A part is a way to put some atoms on k bins; at first each atom is one. The two parts whose bins
// differ most are joined, the fullest bin of one with the emptiest of the other and so on, until
// one part is left. Only bins that hold something are kept, so a join costs what the smaller part
// holds and a shift of the rest, and not k log k as in the usual form.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "overlord/plan/balance/atom_order.h"

namespace overlord::plan {

class Differencing {
 public:
  // Fills `bin_of` by atom; bin 0 is the fullest. With equal counts the first parts are runs of
  // `bins` atoms, one to each bin, and every join keeps counts equal.
  void run(const AtomOrder& order, uint32_t bins, bool equal_count, std::span<uint32_t> bin_of);

 private:
  // One bin of a part: its atoms are a list in next_, by place in the order.
  struct Bin {
    int64_t load;
    uint32_t head;
    uint32_t tail;
  };
  // Bins with atoms, load descending; those not listed hold nothing.
  using Part = std::vector<Bin>;
  struct Spread {
    int64_t difference;
    uint32_t part;
  };

  void make_parts(const AtomOrder& order, bool equal_count);
  int64_t spread_of(const Part& part) const;
  void join(Part* large, Part* small);
  void join_apart(Part* large, const Part& small);
  void join_overlapping(Part* large, const Part& small);
  Bin chain(const Bin& first, const Bin& second);

  static bool is_fuller(const Bin& a, const Bin& b) {
    return a.load != b.load ? a.load > b.load : a.head < b.head;
  }

  uint32_t bins_ = 0;
  std::vector<Part> parts_;
  std::vector<Spread> heap_;
  std::vector<uint32_t> next_;  // by place in the order
  Part changed_;
  Part merged_;
};

}  // namespace overlord::plan
