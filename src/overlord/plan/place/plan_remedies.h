// What would make a step faster, besides another placement: the limiting sample split over the
// consumers, or its bin left to another step. Each as the bound that the fullest consumer would
// have then.
#pragma once

#include <cstdint>
#include <vector>

namespace overlord::plan {

// The atoms of a step and the one that holds it up.
struct LimitedStep {
  std::vector<int64_t> falling;  // costs of all atoms, largest first
  int64_t limiting = 0;          // one of them
  int64_t sample = 0;  // the heaviest sample in that atom; all of it where atoms are samples
  uint32_t consumers = 1;
  uint32_t least = 0;  // atoms that every consumer has to take
};

int64_t bound_when_split(const LimitedStep& step);
int64_t bound_when_delayed(const LimitedStep& step);

}  // namespace overlord::plan
