#include "overlord/plan/balance/balance_search.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "overlord/base/check.h"

namespace overlord::plan {
namespace {

// Light bins that are tried for one exchange once some exchange is known to help.
constexpr uint32_t kPatience = 12;
// How many swaps next to the best one are tried where size limits forbid it.
constexpr uint32_t kDetours = 4;
// Bins with more atoms are not searched for pairs: their single swaps are fine enough.
constexpr uint32_t kSearchedWhole = 20;
// A fullest bin this near to its goal, as a shift, is near enough: costs are not known better.
constexpr int kNearEnough = 14;
// While it is further away than this, the budget counts several times.
constexpr int kFar = 10;
constexpr uint64_t kFarBudgets = 8;

}  // namespace

uint64_t SwapSearch::run(const BalanceProblem& problem, const BinLimits& limits,
                         const AtomOrder& order, int64_t goal, uint64_t budget, BinState* state) {
  if (problem.bins < 2) return 0;
  problem_ = &problem;
  limits_ = &limits;
  state_ = state;
  operations_ = 0;
  const int64_t near = goal + (goal >> kNearEnough);
  if (*std::max_element(state->loads.begin(), state->loads.end()) <= near) return 0;
  fill_lists(order);
  sort_bins();
  while (by_load_.back().load > near) {
    const bool is_far = by_load_.back().load - goal > (goal >> kFar);
    budget_ = is_far ? kFarBudgets * budget : budget;
    if (operations_ >= budget_) break;
    Exchange exchange = look_around(goal, false);
    if (!exchange.found) exchange = look_around(goal, true);
    if (!exchange.found) break;
    apply(exchange);
  }
  return operations_;
}

void SwapSearch::fill_lists(const AtomOrder& order) {
  lists_.assign(problem_->bins, {});
  uint32_t begin = 0;
  for (uint32_t bin = 0; bin < problem_->bins; ++bin) {
    const uint32_t capacity = state_->counts[bin] + state_->counts[bin] / 8 + 2;
    lists_[bin] = {begin, 0, capacity};
    begin += capacity;
  }
  slots_.resize(begin);
  for (size_t i = 0; i < order.size(); ++i) {
    const uint32_t atom = order.atoms()[i];
    const uint32_t bin = state_->bin_of[atom];
    if (bin == kNoBin) continue;
    List& list = lists_[bin];
    OVERLORD_CHECK(list.count < state_->counts[bin], "lists hold what bins do");
    slots_[list.begin + list.count++] = {order.values()[i], atom};
  }
}

void SwapSearch::sort_bins() {
  by_load_.resize(problem_->bins);
  for (uint32_t bin = 0; bin < problem_->bins; ++bin) by_load_[bin] = {state_->loads[bin], bin};
  std::sort(by_load_.begin(), by_load_.end(), [](const BinLoad& a, const BinLoad& b) {
    return a.load != b.load ? a.load < b.load : a.bin < b.bin;
  });
}

// From the lightest bin upwards: the exchange that leaves the fuller of both bins lightest. Stops
// when no later bin can do better, when most of the excess is gone, or when patience ends.
SwapSearch::Exchange SwapSearch::look_around(int64_t goal, bool pairs) {
  const BinLoad fullest = by_load_.back();
  const int64_t enough = goal + (fullest.load - goal) / 8;
  Exchange best;
  if (pairs) {
    if (lists_[fullest.bin].count > kSearchedWhole) return best;
    list_choices(fullest.bin, &gives_);
  }
  uint32_t tried = 0;
  for (uint32_t place = 0; place + 1 < by_load_.size() && operations_ < budget_; ++place) {
    const int64_t difference = fullest.load - by_load_[place].load;
    if (difference <= 1) break;
    if (best.found && (best.result <= fullest.load - difference / 2 || ++tried > kPatience)) break;
    const Exchange found =
        pairs ? best_pair_exchange(fullest.bin, place) : best_exchange(fullest.bin, place);
    if (!found.found || (best.found && found.result >= best.result)) continue;
    best = found;
    if (best.result <= enough) break;
  }
  return best;
}

// The best exchange between the fullest bin and another: the moved load should be half of their
// difference. Both lists descend, so the partners of later atoms lie further on.
SwapSearch::Exchange SwapSearch::best_exchange(uint32_t fullest, uint32_t place) {
  const BinLoad other = by_load_[place];
  const int64_t difference = state_->loads[fullest] - other.load;
  const uint32_t give_count = lists_[fullest].count;
  const uint32_t take_count = lists_[other.bin].count;
  const Slot* gives = slots_of(fullest);
  const Slot* takes = slots_of(other.bin);
  Exchange best;
  best.bin = other.bin;
  best.place = place;
  best.off = difference;  // moving nothing, or all of the difference
  const auto off = [difference](int64_t moved) { return std::abs(2 * moved - difference); };
  uint32_t in = 0;
  for (uint32_t out = 0; out < give_count; ++out) {
    const int64_t cost = gives[out].cost;
    const int64_t wanted = cost - difference / 2;
    while (in < take_count && takes[in].cost > wanted) ++in;
    if (in > 0 && off(cost - takes[in - 1].cost) < best.off) {
      consider(fullest, difference, out, in - 1, &best);
    }
    if (off(cost - (in < take_count ? takes[in].cost : 0)) < best.off) {
      consider(fullest, difference, out, in, &best);
    }
  }
  operations_ += give_count + in;
  best.result = other.load + (difference + best.off) / 2;
  return best;
}

// Takes the swap if it is allowed; `in` after the last slot is nothing. Where limits forbid it,
// something larger in return moves less.
void SwapSearch::consider(uint32_t fullest, int64_t difference, uint32_t out, uint32_t in,
                          Exchange* best) {
  const uint32_t take_count = lists_[best->bin].count;
  const Choice give{slots_of(fullest)[out].cost, out, kNothing};
  for (uint32_t detour = 0; detour < kDetours; ++detour) {
    Choice take;
    if (in < take_count) take = {slots_of(best->bin)[in].cost, in, kNothing};
    const int64_t off = std::abs(2 * (give.cost - take.cost) - difference);
    if (off >= best->off) return;
    if (is_allowed(fullest, best->bin, give, take)) {
      best->found = true;
      best->off = off;
      best->out = give;
      best->in = take;
      return;
    }
    if (in == 0) return;
    --in;
    ++operations_;
  }
}

// The same with one or two atoms for none, one or two; gives_ has the choices of the fullest bin.
SwapSearch::Exchange SwapSearch::best_pair_exchange(uint32_t fullest, uint32_t place) {
  const BinLoad other = by_load_[place];
  const int64_t difference = state_->loads[fullest] - other.load;
  Exchange best;
  if (lists_[other.bin].count > kSearchedWhole) return best;
  list_choices(other.bin, &takes_);
  best.bin = other.bin;
  best.place = place;
  best.off = difference;
  size_t at = 0;
  for (const Choice& give : gives_) {
    const int64_t wanted = give.cost - difference / 2;
    while (at + 1 < takes_.size() && takes_[at].cost > wanted) ++at;
    for (size_t in = at > 0 ? at - 1 : at; in <= at; ++in) {
      const int64_t off = std::abs(2 * (give.cost - takes_[in].cost) - difference);
      if (off >= best.off || !is_allowed(fullest, other.bin, give, takes_[in])) continue;
      best.found = true;
      best.off = off;
      best.out = give;
      best.in = takes_[in];
    }
  }
  operations_ += gives_.size() + 2 * takes_.size();
  best.result = other.load + (difference + best.off) / 2;
  return best;
}

// None, one or two of a bin's atoms, cost descending.
void SwapSearch::list_choices(uint32_t bin, std::vector<Choice>* choices) {
  const Slot* slots = slots_of(bin);
  const uint32_t count = lists_[bin].count;
  choices->clear();
  choices->push_back({});
  for (uint32_t i = 0; i < count; ++i) {
    choices->push_back({slots[i].cost, i, kNothing});
    for (uint32_t j = i + 1; j < count; ++j) {
      choices->push_back({slots[i].cost + slots[j].cost, i, j});
    }
  }
  std::sort(choices->begin(), choices->end(), [](const Choice& a, const Choice& b) {
    if (a.cost != b.cost) return a.cost > b.cost;
    return a.first != b.first ? a.first < b.first : a.second < b.second;
  });
}

bool SwapSearch::is_allowed(uint32_t from, uint32_t to, const Choice& out, const Choice& in) const {
  const auto count = [](const Choice& c) { return (c.first != kNothing) + (c.second != kNothing); };
  const int moved = count(out) - count(in);
  if (limits_->equal) {  // one atom may change sides if the counts do
    const auto ahead = static_cast<int64_t>(state_->counts[from]) - state_->counts[to];
    if (moved != 0 && moved != ahead) return false;
  } else if (moved > 0 ? state_->counts[to] + moved > limits_->count
                       : state_->counts[from] - moved > limits_->count) {
    return false;
  }
  if (!limits_->has_sizes) return true;
  const auto size = [this](uint32_t bin, uint32_t slot) {
    return slot == kNothing ? 0 : problem_->sizes[slots_of(bin)[slot].atom];
  };
  const int64_t moved_size =
      size(from, out.first) + size(from, out.second) - size(to, in.first) - size(to, in.second);
  return moved_size <= state_->room(*limits_, to) && -moved_size <= state_->room(*limits_, from);
}

void SwapSearch::apply(const Exchange& exchange) {
  const uint32_t from = by_load_.back().bin;
  const uint32_t to = exchange.bin;
  const int64_t both = state_->loads[from] + state_->loads[to];
  std::array<Slot, 2> out, in;
  const uint32_t out_count = take_all(from, exchange.out, out.data());
  const uint32_t in_count = take_all(to, exchange.in, in.data());
  for (uint32_t i = 0; i < in_count; ++i) insert(from, in[i]);
  for (uint32_t i = 0; i < out_count; ++i) insert(to, out[i]);
  OVERLORD_CHECK(state_->loads[from] + state_->loads[to] == both, "an exchange loses nothing");
  OVERLORD_CHECK(std::max(state_->loads[from], state_->loads[to]) == exchange.result,
                 "an exchange does what it promised");
  reposition(exchange.place, state_->loads[to]);
  reposition(static_cast<uint32_t>(by_load_.size() - 1), state_->loads[from]);
}

uint32_t SwapSearch::take_all(uint32_t bin, const Choice& choice, Slot* taken) {
  uint32_t count = 0;
  for (const uint32_t slot : {choice.second, choice.first}) {  // the later one first
    if (slot == kNothing) continue;
    taken[count++] = slots_of(bin)[slot];
    take(bin, slot);
  }
  return count;
}

void SwapSearch::take(uint32_t bin, uint32_t slot) {
  List& list = lists_[bin];
  OVERLORD_CHECK(slot < list.count && state_->counts[bin] == list.count,
                 "what is taken is in its bin");
  Slot* slots = slots_.data() + list.begin;
  state_->loads[bin] -= slots[slot].cost;
  state_->sizes[bin] -= size_of(*problem_, *limits_, slots[slot].atom);
  --state_->counts[bin];
  std::copy(slots + slot + 1, slots + list.count, slots + slot);
  --list.count;
  operations_ += list.count / 8;
}

void SwapSearch::insert(uint32_t bin, Slot slot) {
  List& list = lists_[bin];
  if (list.count == list.capacity) {  // move to the end, with room to grow
    const auto begin = static_cast<uint32_t>(slots_.size());
    const uint32_t capacity = list.capacity * 2;
    slots_.resize(slots_.size() + capacity);
    std::copy_n(slots_.begin() + list.begin, list.count, slots_.begin() + begin);
    list.begin = begin;
    list.capacity = capacity;
  }
  Slot* slots = slots_.data() + list.begin;
  Slot* at = std::partition_point(slots, slots + list.count, [&slot](const Slot& other) {
    return other.cost != slot.cost ? other.cost > slot.cost : other.atom < slot.atom;
  });
  OVERLORD_CHECK(list.count < list.capacity, "a list has room for one more");
  std::copy_backward(at, slots + list.count, slots + list.count + 1);
  *at = slot;
  ++list.count;
  state_->loads[bin] += slot.cost;
  state_->sizes[bin] += size_of(*problem_, *limits_, slot.atom);
  ++state_->counts[bin];
  state_->bin_of[slot.atom] = bin;
  operations_ += list.count / 8;
}

void SwapSearch::reposition(uint32_t place, int64_t load) {
  OVERLORD_CHECK(load == state_->loads[by_load_[place].bin], "bins are sorted by what they hold");
  const BinLoad moved{load, by_load_[place].bin};
  uint32_t at = place;
  while (at + 1 < by_load_.size() && by_load_[at + 1].load < load) {
    by_load_[at] = by_load_[at + 1];
    ++at;
  }
  while (at > 0 && by_load_[at - 1].load > load) {
    by_load_[at] = by_load_[at - 1];
    --at;
  }
  by_load_[at] = moved;
  operations_ += (at > place ? at - place : place - at) / 4;
}

}  // namespace overlord::plan
