#include "overlord/plan/place/plan_remedies.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "overlord/base/check.h"
#include "overlord/plan/balance/balance_bound.h"

namespace overlord::plan {
namespace {

// The bound with another cost in place of the limiting one.
int64_t bound_with(const LimitedStep& step, int64_t instead) {
  OVERLORD_CHECK(instead >= 0 && instead <= std::max(step.limiting, step.falling.front()),
                 "a remedy makes nothing heavier");
  std::vector<int64_t> falling = step.falling;
  const auto old =
      std::lower_bound(falling.begin(), falling.end(), step.limiting, std::greater<>());
  OVERLORD_CHECK(old != falling.end() && *old == step.limiting, "the limiting atom is of the step");
  falling.erase(old);
  falling.insert(std::lower_bound(falling.begin(), falling.end(), instead, std::greater<>()),
                 instead);
  std::vector<uint32_t> atoms(falling.size());
  std::iota(atoms.begin(), atoms.end(), 0);
  return BoundFinder().find(falling, atoms, step.consumers, {}, step.least).load;
}

}  // namespace

int64_t bound_when_split(const LimitedStep& step) {
  const int64_t consumers = step.consumers;
  const int64_t share = (step.sample + consumers - 1) / consumers;
  return bound_with(step, step.limiting - step.sample) + share;
}

int64_t bound_when_delayed(const LimitedStep& step) {
  OVERLORD_CHECK(!step.falling.empty(), "a step has atoms");
  const int64_t total = std::accumulate(step.falling.begin(), step.falling.end(), int64_t{0});
  return bound_with(step, total / static_cast<int64_t>(step.falling.size()));
}

}  // namespace overlord::plan
