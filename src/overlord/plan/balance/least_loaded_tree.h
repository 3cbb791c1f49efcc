// A winner tree over bins: the least loaded open bin, and the least loaded one with enough room.
// Ties go to the lower bin.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "overlord/plan/balance/balance.h"

namespace overlord::plan {

class LeastLoadedTree {
 public:
  // `rooms` is empty where room does not matter.
  void reset(std::span<const int64_t> loads, std::span<const int64_t> rooms);
  uint32_t least() const { return loads_[1] == kClosed ? kNoBin : bins_[1]; }
  uint32_t least_with_room(int64_t size) const;
  void set(uint32_t bin, int64_t load) {
    uint32_t node = leaves_ + bin;
    loads_[node] = load;
    while (node > 1) choose(node /= 2);
  }
  void set_room(uint32_t bin, int64_t room);
  void close(uint32_t bin) { set(bin, kClosed); }

 private:
  static constexpr int64_t kClosed = std::numeric_limits<int64_t>::max();

  void choose(uint32_t node) {
    const uint32_t winner = 2 * node + (loads_[2 * node + 1] < loads_[2 * node]);
    loads_[node] = loads_[winner];
    bins_[node] = bins_[winner];
  }

  uint32_t leaves_ = 0;
  std::vector<int64_t> loads_;  // by node; the root is 1, the leaf of bin b is leaves_ + b
  std::vector<uint32_t> bins_;
  std::vector<int64_t> rooms_;  // most room below the node
};

}  // namespace overlord::plan
