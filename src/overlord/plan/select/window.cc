#include "overlord/plan/select/window.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/base/fixed_point.h"

namespace overlord::plan {
namespace {

constexpr size_t kMostSteps = 256;
constexpr uint32_t kRoundsPerStep = 8;     // exchanges between two steps, for each step
constexpr size_t kFewBins = 256;           // up to so many, single swaps are tried in the end
constexpr uint32_t kMostSwapTurns = 16;    // times that all of them are tried
constexpr uint32_t kFitTries = 64;         // bins for which a partner is looked for
constexpr size_t kMostBinsTwice = 16'384;  // up to so many, several ways to begin are tried

struct Bin {
  int64_t cost = 0;
  uint32_t id = 0;
};

bool is_heavier(const Bin& a, const Bin& b) {
  return a.cost != b.cost ? a.cost > b.cost : a.id < b.id;
}

// Heaviest first, of equals the lower id. By radix: comparing takes several times longer.
void sort_bins(std::vector<Bin>* bins, std::vector<Bin>* scratch) {
  int64_t all = 0;
  for (const Bin& bin : *bins) all |= bin.cost;
  scratch->resize(bins->size());
  for (int shift = 0; shift < 63 && (all >> shift) != 0; shift += 11) {
    std::array<uint32_t, 2048> heads{};
    const auto digit = [shift](const Bin& bin) { return 2047 - ((bin.cost >> shift) & 2047); };
    for (const Bin& bin : *bins) ++heads[digit(bin)];
    uint32_t at = 0;
    for (uint32_t& head : heads) at += std::exchange(head, at);
    for (const Bin& bin : *bins) (*scratch)[heads[digit(bin)]++] = bin;
    bins->swap(*scratch);
  }
}

struct Step {
  std::vector<Bin> bins;            // heaviest first
  std::vector<uint32_t> by_origin;  // how many bins were selected for each step
  int64_t total = 0;

  int64_t largest() const { return bins.front().cost; }
};

// Two steps exchange bins: `heaviest` of `from` go to `to` and as many come back, then more until
// neither lacks work that the other has too much of.
struct Exchange {
  uint32_t from = 0;
  uint32_t to = 0;
  uint32_t heaviest = 0;
  int64_t gain = 0;  // at best
};

class WindowBalancer {
 public:
  WindowBalancer(std::span<const int64_t> costs, const WindowShape& shape);
  int64_t time() const;
  int64_t lower_bound() const;
  void balance();
  void report(RebalancedWindow* out) const;

 private:
  struct Swapped {  // as seen from the first of two steps
    std::vector<Bin> go;
    std::vector<Bin> come;
  };

  int64_t step_time(int64_t total, int64_t largest) const {
    return std::max((total + width_ - 1) / width_, largest);
  }
  int64_t step_time(const Step& step) const { return step_time(step.total, step.largest()); }
  uint32_t origin(const Bin& bin) const { return bin.id / bins_per_step_; }
  bool may_go(const Bin& bin, uint32_t step) const {
    const uint32_t from = origin(bin);
    return (from > step ? from - step : step - from) <= reach_;
  }
  uint64_t count_that_may_go(uint32_t from, uint32_t to) const;

  uint32_t most_that_can_go(uint32_t from, uint32_t to) const;
  Exchange best_exchange(uint32_t from, uint32_t to) const;
  std::vector<bool> try_meetings();
  void keep_extremes(uint32_t half);
  void balance_from(const std::vector<bool>& meeting);
  template <typename Allowed>
  void exchange_bins(Allowed allowed);
  bool apply(const Exchange& exchange);
  Swapped send_heaviest(const Exchange& exchange);
  Swapped shift_work(uint32_t from, uint32_t to);
  size_t next_movable(uint32_t from, uint32_t to, size_t at) const;
  size_t first_at_most(uint32_t step, int64_t cost) const;
  void swap_bins(uint32_t a, std::span<const Bin> from_a, uint32_t b, std::span<const Bin> from_b);
  void replace(uint32_t step, std::span<const Bin> gone, std::span<const Bin> come);
  void swap_single_bins();
  bool try_single_swaps(uint32_t a, uint32_t b);
  int64_t nth_heaviest(uint64_t n) const;

  uint32_t bins_per_step_;
  uint32_t kept_;  // bins per step that may move
  int64_t width_;
  uint32_t reach_ = 0;
  int64_t tolerance_ = 0;  // of the time of two steps that exchange bins
  std::vector<Step> steps_;
  std::vector<Bin> scratch_;
};

WindowBalancer::WindowBalancer(std::span<const int64_t> costs, const WindowShape& shape)
    : bins_per_step_(shape.bins_per_step), kept_(bins_per_step_), width_(shape.width) {
  const auto count = static_cast<uint32_t>(costs.size() / bins_per_step_);
  reach_ = std::min(shape.max_delay, count - 1);
  steps_.resize(count);
  uint32_t id = 0;
  for (uint32_t s = 0; s < count; ++s) {
    Step& step = steps_[s];
    step.bins.reserve(bins_per_step_);
    for (uint32_t i = 0; i < bins_per_step_; ++i, ++id) {
      step.bins.push_back({costs[id], id});
      step.total += costs[id];
    }
    sort_bins(&step.bins, &scratch_);
    step.by_origin.assign(count, 0);
    step.by_origin[s] = bins_per_step_;
  }
  tolerance_ = mul_div_floor(time(), shape.tolerance_permille, 1000) / count;
}

int64_t WindowBalancer::time() const {
  int64_t sum = 0;
  for (const Step& step : steps_) sum += step_time(step);
  return sum;
}

// The value that n bins of all steps are at least as heavy as, n starting at 1.
int64_t WindowBalancer::nth_heaviest(uint64_t n) const {
  int64_t low = 0, high = 0;  // at least n are >= low, always
  for (const Step& step : steps_) high = std::max(high, step.largest());
  while (low < high) {
    const int64_t middle = high - (high - low) / 2;
    uint64_t count = 0;
    for (const Step& step : steps_) {
      count += static_cast<uint64_t>(
          std::partition_point(step.bins.begin(), step.bins.end(),
                               [middle](const Bin& bin) { return bin.cost >= middle; }) -
          step.bins.begin());
    }
    if (count >= n) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

// The largest of three: all work evenly over all steps; the heaviest bins together in one step, the
// next in another, and so on, each step as long as its heaviest; and what bins that are selected
// too far apart to meet cost, each in a step of its own.
int64_t WindowBalancer::lower_bound() const {
  const size_t count = steps_.size();
  int64_t total = 0, heaviest = 0;
  for (size_t s = 0; s < count; ++s) {
    total += steps_[s].total;
    heaviest += nth_heaviest(uint64_t{s} * bins_per_step_ + 1);
  }
  // No step's heaviest is lighter than `least`; apart[s]: what the first s steps add to that.
  const int64_t least = nth_heaviest(uint64_t{count - 1} * bins_per_step_ + 1);
  std::vector<int64_t> apart(count + 1, 0);
  for (size_t s = 0; s < count; ++s) {
    const int64_t before = apart[s >= size_t{2} * reach_ ? s - size_t{2} * reach_ : 0];
    apart[s + 1] = std::max(apart[s], before + steps_[s].largest() - least);
  }
  const int64_t alone = apart[count] + static_cast<int64_t>(count) * least;
  return std::max({(total + width_ - 1) / width_, heaviest, alone});
}

// Where caps forbid that all outliers meet in one step, it matters in which steps they meet, and
// exchanges between two steps cannot find that out. So some regular choices are tried, too: with
// all bins where they are few, else with the heaviest and the lightest of every step.
void WindowBalancer::balance() {
  const auto count = static_cast<uint32_t>(steps_.size());
  if (count * size_t{kept_} > kMostBinsTwice) {
    if (reach_ + 1 == count) return balance_from(std::vector<bool>(count, true));
    WindowBalancer extremes = *this;
    extremes.keep_extremes(static_cast<uint32_t>(kMostBinsTwice / 2 / count));
    return balance_from(extremes.try_meetings());
  }
  try_meetings();
}

// Tries them all, keeps the best result and gives the choice that led to it.
std::vector<bool> WindowBalancer::try_meetings() {
  const auto count = static_cast<uint32_t>(steps_.size());
  const std::vector<Step> selected = steps_;
  std::vector<bool> best_meeting(count, true);
  balance_from(best_meeting);
  std::vector<Step> best = steps_;
  int64_t best_time = time();
  for (uint32_t stride = reach_ + 1; stride <= std::min(2 * reach_ + 1, count); ++stride) {
    for (uint32_t first = 0; first < stride && first < count; ++first) {
      std::vector<bool> meeting(count, false);
      for (uint32_t s = first; s < count; s += stride) meeting[s] = true;
      steps_ = selected;
      balance_from(meeting);
      if (time() >= best_time) continue;
      best_time = time();
      best = steps_;
      best_meeting = meeting;
    }
  }
  steps_ = std::move(best);
  return best_meeting;
}

// Leaves `half` heaviest and `half` lightest bins in every step. The others count as work that
// cannot move.
void WindowBalancer::keep_extremes(uint32_t half) {
  kept_ = 2 * half;
  for (uint32_t s = 0; s < steps_.size(); ++s) {
    std::vector<Bin>& bins = steps_[s].bins;
    bins.erase(bins.begin() + half, bins.end() - half);
    steps_[s].by_origin[s] = kept_;
  }
}

// First the heaviest bins go to steps where they shall meet, then anywhere.
void WindowBalancer::balance_from(const std::vector<bool>& meeting) {
  const auto count = static_cast<uint32_t>(steps_.size());
  const bool anywhere = std::find(meeting.begin(), meeting.end(), false) == meeting.end();
  if (!anywhere) {
    exchange_bins([&](uint32_t from, uint32_t to) { return !meeting[from] && meeting[to]; });
  }
  exchange_bins([](uint32_t from, uint32_t to) { return from != to; });
  if (size_t{count} * kept_ <= kFewBins) swap_single_bins();
}

// The exchange that promises most, again and again, of steps for which `allowed(from, to)`.
template <typename Allowed>
void WindowBalancer::exchange_bins(Allowed allowed) {
  const auto count = static_cast<uint32_t>(steps_.size());
  std::vector<Exchange> known(size_t{count} * count);
  const auto look = [&](uint32_t from, uint32_t to) {
    if (allowed(from, to)) known[from * count + to] = best_exchange(from, to);
  };
  for (uint32_t from = 0; from < count; ++from) {
    for (uint32_t to = 0; to < count; ++to) look(from, to);
  }
  for (uint32_t round = 0; round < kRoundsPerStep * count; ++round) {
    Exchange* best = &known.front();
    for (Exchange& exchange : known) {
      const bool fewer = exchange.gain == best->gain && exchange.heaviest < best->heaviest;
      if (exchange.gain > best->gain || fewer) best = &exchange;
    }
    if (best->gain <= tolerance_) return;
    if (!apply(*best)) {
      best->gain = 0;  // until one of the steps has changed
      continue;
    }
    const auto [from, to, heaviest, gain] = *best;
    for (uint32_t other = 0; other < count; ++other) {
      for (const uint32_t changed : {from, to}) {
        look(changed, other);
        look(other, changed);
      }
    }
  }
}

uint64_t WindowBalancer::count_that_may_go(uint32_t from, uint32_t to) const {
  uint64_t sum = 0;
  for (uint32_t o = 0; o < steps_.size(); ++o) {
    if ((o > to ? o - to : to - o) <= reach_) sum += steps_[from].by_origin[o];
  }
  return sum;
}

// How many of the heaviest bins of a step can go, so that as many may return which are no heavier
// than the heaviest that stays. If so many can, fewer can, too.
uint32_t WindowBalancer::most_that_can_go(uint32_t from, uint32_t to) const {
  const Step& here = steps_[from];
  const Step& there = steps_[to];
  uint64_t may_return = count_that_may_go(to, from);
  if (may_return == 0) return 0;
  if (may_return == kept_ && count_that_may_go(from, to) == kept_) {
    uint32_t most = 0;
    for (uint32_t over = kept_; most + 1 < over;) {
      const uint32_t k = most + (over - most) / 2;
      const bool can = kept_ - first_at_most(to, here.bins[k].cost) >= k;
      (can ? most : over) = k;
    }
    return most;
  }
  size_t too_heavy = 0;
  uint32_t k = 1;
  for (; k < kept_ && may_go(here.bins[k - 1], to); ++k) {
    while (too_heavy < kept_ && there.bins[too_heavy].cost > here.bins[k].cost) {
      may_return -= may_go(there.bins[too_heavy++], from);
    }
    if (may_return < k) break;
  }
  return k - 1;
}

// How many of the heaviest bins should go, if the rest of the work can then be spread at will
// between the two steps: the fewest that gain most, less the tolerance.
Exchange WindowBalancer::best_exchange(uint32_t from, uint32_t to) const {
  const Step& here = steps_[from];
  const Step& there = steps_[to];
  const int64_t now = step_time(here) + step_time(there);
  const int64_t floor = (here.total + there.total + width_ - 1) / width_;
  if (now <= floor) return {from, to, 0, 0};
  const int64_t as_they_are = std::max(floor, here.largest() + there.largest());
  const uint32_t most = most_that_can_go(from, to);
  const int64_t largest_there = std::max(here.largest(), there.largest());
  const int64_t enough = std::max(floor, here.bins[most].cost + largest_there) + tolerance_;
  if (most == 0 || as_they_are <= enough) return {from, to, 0, now - as_they_are};
  const auto fewest =
      std::partition_point(here.bins.begin() + 1, here.bins.begin() + most,
                           [&](const Bin& bin) { return bin.cost + largest_there > enough; });
  return {from, to, static_cast<uint32_t>(fewest - here.bins.begin()),
          now - std::max(floor, fewest->cost + largest_there)};
}

// False, and nothing changed, if it did not help.
bool WindowBalancer::apply(const Exchange& exchange) {
  const auto [from, to, heaviest, gain] = exchange;
  const int64_t before = step_time(steps_[from]) + step_time(steps_[to]);
  const Swapped sent = heaviest > 0 ? send_heaviest(exchange) : Swapped();
  const Swapped more = shift_work(from, to);
  const Swapped less = shift_work(to, from);
  if (step_time(steps_[from]) + step_time(steps_[to]) < before) return true;
  swap_bins(to, less.come, from, less.go);
  swap_bins(from, more.come, to, more.go);
  swap_bins(from, sent.come, to, sent.go);
  return false;
}

// The first bin of a step at or after `at` that may go to another; the number of bins: none.
size_t WindowBalancer::next_movable(uint32_t from, uint32_t to, size_t at) const {
  const std::vector<Bin>& bins = steps_[from].bins;
  while (at < bins.size() && !may_go(bins[at], to)) ++at;
  return at;
}

size_t WindowBalancer::first_at_most(uint32_t step, int64_t cost) const {
  const std::vector<Bin>& bins = steps_[step].bins;
  return static_cast<size_t>(
      std::partition_point(bins.begin(), bins.end(),
                           [cost](const Bin& bin) { return bin.cost > cost; }) -
      bins.begin());
}

WindowBalancer::Swapped WindowBalancer::send_heaviest(const Exchange& exchange) {
  const auto [from, to, count, gain] = exchange;
  const Step& here = steps_[from];
  const Step& there = steps_[to];
  const int64_t largest_here = here.bins[count].cost;
  const int64_t largest_there = std::max(here.largest(), there.largest());
  Swapped swapped;
  swapped.go.assign(here.bins.begin(), here.bins.begin() + count);
  // Those that return are neighbours in weight: the first such run that makes both steps shortest.
  size_t first = next_movable(to, from, first_at_most(to, largest_here)), end = first;
  int64_t change = 0;  // of the work here
  for (const Bin& bin : swapped.go) {
    change += there.bins[end].cost - bin.cost;
    end = next_movable(to, from, end + 1);
  }
  const int64_t ideal =
      std::max((here.total + there.total + width_ - 1) / width_, largest_here + largest_there);
  size_t best_first = first;
  for (int64_t best = std::numeric_limits<int64_t>::max();;) {
    const int64_t time = step_time(here.total + change, largest_here) +
                         step_time(there.total - change, largest_there);
    if (time < best) {
      best = time;
      best_first = first;
    }
    if (best == ideal || end == there.bins.size()) break;
    change += there.bins[end].cost - there.bins[first].cost;
    first = next_movable(to, from, first + 1);
    end = next_movable(to, from, end + 1);
  }
  for (size_t at = best_first; swapped.come.size() < count; at = next_movable(to, from, at + 1)) {
    swapped.come.push_back(there.bins[at]);
  }
  swap_bins(from, swapped.go, to, swapped.come);
  return swapped;
}

// When `to` is held up by its heaviest bin and `from` is not: heavy bins from there against light
// ones from here, the most unequal first, then one pair that fits what is left.
WindowBalancer::Swapped WindowBalancer::shift_work(uint32_t from, uint32_t to) {
  const std::vector<Bin>& heavy = steps_[from].bins;
  const std::vector<Bin>& light = steps_[to].bins;
  const int64_t room = steps_[to].largest() * width_ - steps_[to].total;
  const int64_t spare = steps_[from].total - steps_[from].largest() * width_;
  int64_t wanted = std::min(room, spare);
  Swapped swapped;
  if (wanted <= 0) return swapped;
  size_t h = next_movable(from, to, first_at_most(from, steps_[to].largest()));
  size_t lights = light.size();  // the last of so many is the lightest that is left
  for (; h < heavy.size(); h = next_movable(from, to, h + 1)) {
    while (lights > 0 && !may_go(light[lights - 1], from)) --lights;
    if (lights == 0) break;
    const int64_t more = heavy[h].cost - light[lights - 1].cost;
    if (more <= 0 || more > wanted) break;
    swapped.go.push_back(heavy[h]);
    swapped.come.push_back(light[--lights]);
    wanted -= more;
  }
  // Of pairs that shift no more than what is still wanted, the one that shifts most.
  int64_t closest = 0;
  const Bin *goes = nullptr, *comes = nullptr;
  for (uint32_t i = 0; i < kFitTries && h < heavy.size() && closest < wanted; ++i) {
    size_t fit = std::min(lights, first_at_most(to, heavy[h].cost - wanted - 1));
    while (fit > 0 && !may_go(light[fit - 1], from)) --fit;
    if (fit > 0 && heavy[h].cost - light[fit - 1].cost > closest) {
      goes = &heavy[h];
      comes = &light[fit - 1];
      closest = goes->cost - comes->cost;
    }
    h = next_movable(from, to, h + 1);
  }
  if (closest > 0) {
    swapped.go.push_back(*goes);
    swapped.come.push_back(*comes);
  }
  swap_bins(from, swapped.go, to, swapped.come);
  return swapped;
}

void WindowBalancer::swap_bins(uint32_t a, std::span<const Bin> from_a, uint32_t b,
                               std::span<const Bin> from_b) {
  OVERLORD_CHECK(from_a.size() == from_b.size(), "steps keep their number of bins");
  if (from_a.empty()) return;
  std::vector<Bin> one(from_a.begin(), from_a.end()), other(from_b.begin(), from_b.end());
  std::sort(one.begin(), one.end(), is_heavier);
  std::sort(other.begin(), other.end(), is_heavier);
  replace(a, one, other);
  replace(b, other, one);
}

// Both sorted.
void WindowBalancer::replace(uint32_t s, std::span<const Bin> gone, std::span<const Bin> come) {
  Step& step = steps_[s];
  std::vector<Bin>& bins = scratch_;
  bins.clear();
  size_t next_gone = 0, next_come = 0;
  for (const Bin& bin : step.bins) {
    if (next_gone < gone.size() && gone[next_gone].id == bin.id) {
      ++next_gone;
      step.total -= bin.cost;
      --step.by_origin[origin(bin)];
      continue;
    }
    while (next_come < come.size() && is_heavier(come[next_come], bin)) {
      bins.push_back(come[next_come++]);
    }
    bins.push_back(bin);
  }
  while (next_come < come.size()) bins.push_back(come[next_come++]);
  OVERLORD_CHECK(next_gone == gone.size(), "what leaves a step was in it");
  for (const Bin& bin : come) {
    step.total += bin.cost;
    ++step.by_origin[origin(bin)];
  }
  step.bins.swap(bins);
}

void WindowBalancer::swap_single_bins() {
  const auto count = static_cast<uint32_t>(steps_.size());
  bool helped = true;
  for (uint32_t turn = 0; helped && turn < kMostSwapTurns; ++turn) {
    helped = false;
    for (uint32_t a = 0; a < count; ++a) {
      for (uint32_t b = a + 1; b < count; ++b) helped |= try_single_swaps(a, b);
    }
  }
}

// The best swap of one bin of each, if it helps by more than the tolerance.
bool WindowBalancer::try_single_swaps(uint32_t a, uint32_t b) {
  const Step& one = steps_[a];
  const Step& other = steps_[b];
  const auto largest_without = [](const Step& step, size_t i) {
    if (i > 0) return step.largest();
    return step.bins.size() > 1 ? step.bins[1].cost : int64_t{0};
  };
  int64_t best = step_time(one) + step_time(other) - tolerance_;
  size_t best_i = 0, best_j = 0;
  bool found = false;
  for (size_t i = 0; i < one.bins.size(); ++i) {
    const Bin& mine = one.bins[i];
    if (!may_go(mine, b)) continue;
    for (size_t j = 0; j < other.bins.size(); ++j) {
      const Bin& theirs = other.bins[j];
      if (!may_go(theirs, a)) continue;
      const int64_t time = step_time(one.total - mine.cost + theirs.cost,
                                     std::max(largest_without(one, i), theirs.cost)) +
                           step_time(other.total - theirs.cost + mine.cost,
                                     std::max(largest_without(other, j), mine.cost));
      if (time >= best) continue;
      best = time;
      best_i = i;
      best_j = j;
      found = true;
    }
  }
  if (!found) return false;
  const Bin mine = one.bins[best_i], theirs = other.bins[best_j];
  swap_bins(a, {&mine, 1}, b, {&theirs, 1});
  return true;
}

void WindowBalancer::report(RebalancedWindow* out) const {
  out->reach = reach_;
  out->step_of_bin.resize(steps_.size() * bins_per_step_);
  out->bins_by_shift.assign(size_t{2} * reach_ + 1, 0);
  for (uint32_t s = 0; s < steps_.size(); ++s) {
    for (const Bin& bin : steps_[s].bins) {
      OVERLORD_CHECK(may_go(bin, s), "no bin moves further than it may");
      out->step_of_bin[bin.id] = s;
      ++out->bins_by_shift[reach_ + s - origin(bin)];
    }
  }
}

int64_t time_as_selected(std::span<const int64_t> costs, const WindowShape& shape) {
  int64_t sum = 0;
  for (size_t first = 0; first < costs.size(); first += shape.bins_per_step) {
    int64_t total = 0, largest = 0;
    for (const int64_t cost : costs.subspan(first, shape.bins_per_step)) {
      total += cost;
      largest = std::max(largest, cost);
    }
    sum += std::max((total + shape.width - 1) / shape.width, largest);
  }
  return sum;
}

}  // namespace

Result<RebalancedWindow> rebalance_window(std::span<const int64_t> costs,
                                          const WindowShape& shape) {
  if (shape.bins_per_step == 0) return invalid_argument("bins_per_step: starts at 1, got 0");
  if (shape.width == 0) return invalid_argument("width: starts at 1, got 0");
  if (shape.tolerance_permille > 1000) {
    return invalid_argument("tolerance_permille: 0 to 1000, got " +
                            std::to_string(shape.tolerance_permille));
  }
  if (costs.empty() || costs.size() % shape.bins_per_step != 0 ||
      costs.size() > std::numeric_limits<uint32_t>::max()) {
    return invalid_argument("costs: some steps of " + std::to_string(shape.bins_per_step) +
                            " bins, got " + std::to_string(costs.size()));
  }
  const size_t steps = costs.size() / shape.bins_per_step;
  if (steps > kMostSteps) {
    return invalid_argument("a window has at most 256 steps, got " + std::to_string(steps));
  }
  Int128 total = 0;
  int64_t largest = 0;
  for (const int64_t cost : costs) {
    if (cost < 0) return invalid_argument("costs: at least 0, got " + std::to_string(cost));
    total += cost;
    largest = std::max(largest, cost);
  }
  if (!fits_int64(total + Int128{largest} * shape.width * Int128{steps})) {
    return invalid_argument("costs: the steps of a window take over 63 bits");
  }
  RebalancedWindow out;
  out.lower_bound = static_cast<int64_t>(ceil_div(total, shape.width));
  out.time_before = time_as_selected(costs, shape);
  const auto tolerance = mul_div_floor(out.time_before, shape.tolerance_permille, 1000);
  if (out.time_before - out.lower_bound <= tolerance) {  // as nearly always: no need to sort
    out.time_after = out.time_before;
    out.reach = std::min(shape.max_delay, static_cast<uint32_t>(steps) - 1);
    out.bins_by_shift.assign(size_t{2} * out.reach + 1, 0);
    out.bins_by_shift[out.reach] = costs.size();
    for (uint32_t i = 0; i < costs.size(); ++i) out.step_of_bin.push_back(i / shape.bins_per_step);
    return out;
  }
  WindowBalancer balancer(costs, shape);
  out.lower_bound = balancer.lower_bound();
  if (shape.max_delay > 0 && out.time_before - out.lower_bound > tolerance) balancer.balance();
  out.time_after = balancer.time();
  OVERLORD_CHECK(out.lower_bound <= out.time_after && out.time_after <= out.time_before,
                 "balancing helps");
  balancer.report(&out);
  return out;
}

}  // namespace overlord::plan
