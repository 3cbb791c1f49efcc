#include "overlord/plan/balance/least_loaded_tree.h"

#include <algorithm>
#include <array>
#include <bit>

#include "overlord/base/check.h"

namespace overlord::plan {

void LeastLoadedTree::reset(std::span<const int64_t> loads, std::span<const int64_t> rooms) {
  OVERLORD_CHECK(rooms.empty() || rooms.size() == loads.size(), "a room for every load");
  leaves_ = std::bit_ceil(static_cast<uint32_t>(loads.size()));
  leaves_ = std::max(leaves_, 2u);
  loads_.assign(2 * size_t{leaves_}, kClosed);
  bins_.assign(2 * size_t{leaves_}, kNoBin);
  std::copy(loads.begin(), loads.end(), loads_.begin() + leaves_);
  for (uint32_t bin = 0; bin < loads.size(); ++bin) bins_[leaves_ + bin] = bin;
  for (uint32_t node = leaves_ - 1; node > 0; --node) choose(node);
  rooms_.clear();
  if (rooms.empty()) return;
  rooms_.assign(2 * size_t{leaves_}, -1);
  std::copy(rooms.begin(), rooms.end(), rooms_.begin() + leaves_);
  for (uint32_t node = leaves_ - 1; node > 0; --node) {
    rooms_[node] = std::max(rooms_[2 * node], rooms_[2 * node + 1]);
  }
}

void LeastLoadedTree::set_room(uint32_t bin, int64_t room) {
  OVERLORD_CHECK(bin < leaves_ && !rooms_.empty(), "rooms of a tree that has them");
  uint32_t node = leaves_ + bin;
  rooms_[node] = room;
  while (node > 1) {
    node /= 2;
    rooms_[node] = std::max(rooms_[2 * node], rooms_[2 * node + 1]);
  }
}

// Depth first, the lighter child first; a subtree is left out when nothing in it has the room or is
// lighter than what was found.
uint32_t LeastLoadedTree::least_with_room(int64_t size) const {
  int64_t best_load = kClosed;
  uint32_t best = kNoBin;
  std::array<uint32_t, 64> stack;
  uint32_t depth = 0;
  stack[depth++] = 1;
  while (depth > 0) {
    const uint32_t node = stack[--depth];
    if (rooms_[node] < size || loads_[node] == kClosed) continue;
    const uint32_t winner = bins_[node];
    if (loads_[node] > best_load || (loads_[node] == best_load && winner > best)) continue;
    if (rooms_[leaves_ + winner] >= size) {
      best_load = loads_[node];
      best = winner;
      continue;
    }
    if (node >= leaves_) continue;
    const uint32_t lighter = 2 * node + (loads_[2 * node + 1] < loads_[2 * node]);
    OVERLORD_CHECK(depth + 2 <= stack.size(), "the tree is no deeper than its numbers");
    stack[depth++] = lighter ^ 1;
    stack[depth++] = lighter;
  }
  return best;
}

}  // namespace overlord::plan
