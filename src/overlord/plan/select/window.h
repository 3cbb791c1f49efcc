// Rebalancing over a window of steps: which of them each bin goes to.
//
// A bin that costs far more than the others holds its step up: the step takes as long as that bin,
// however the rest is spread. Over several steps it pays to let such bins meet in one step, and
// to give that step more of the other work. Windows tumble: each is some steps of equally many
// bins, nothing enters or leaves it, and the only state between two is where the last one began.
//
// Steps keep their number of bins, so a bin that is delayed makes another one come early. The cap
// holds in both directions: no bin moves by more than `max_delay` steps, later or earlier.
//
// Predicted time of a step is max(ceil(sum of costs / width), largest cost), for `width` consumers
// side by side. The width is a config value, not the mesh: what a step holds never depends on that.
// Placing bins on real ranks comes later, and can at best reach this time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "overlord/base/status.h"

namespace overlord::plan {

struct WindowShape {
  uint32_t bins_per_step = 1;
  uint32_t max_delay = 0;  // steps that a bin may move, later or earlier; 0: nothing moves
  uint32_t width = 1;      // consumers that share a step's bins
  // Gains below this share of the window's time are not worth moving bins for. Where outliers rule,
  // the last few thousandths of time would move most bins.
  uint32_t tolerance_permille = 5;
};

struct RebalancedWindow {
  std::vector<uint32_t> step_of_bin;  // by bin, in the order of the costs
  int64_t time_before = 0;            // sum over the steps, as selected
  int64_t time_after = 0;
  int64_t lower_bound = 0;  // of time_after, however bins move within the cap
  uint32_t reach = 0;       // max_delay, at most steps - 1
  // Bins by how far they moved: [reach] stayed, [reach + 2] came two steps later.
  std::vector<uint64_t> bins_by_shift;
};

// `costs`: those of the first step's bins, then of the second's, and so on.
Result<RebalancedWindow> rebalance_window(std::span<const int64_t> costs, const WindowShape& shape);

}  // namespace overlord::plan
