#include "overlord/plan/pipeline/pipeline_search.h"

#include <algorithm>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/base/rng.h"

namespace overlord::plan {
namespace {

constexpr uint32_t kMostChains = 64;
constexpr uint64_t kDisturbingKey = 0x6f72646572;  // any fixed number

}  // namespace

PipelineSearch::PipelineSearch(const PipelineSchedule& schedule, std::span<const int64_t> times,
                               const SearchLimits& limits)
    : schedule_(schedule),
      times_(times),
      limits_(limits),
      places_(schedule.microbatches()),
      ends_(size_t{schedule.runs()} + 1, 0),
      trial_ends_(ends_) {}

int64_t PipelineSearch::improve(std::vector<uint32_t>* order) {
  begin(*order);
  const int64_t first = current_;
  int64_t best = current_;
  for (uint64_t round = 0;; ++round) {
    descend();
    if (current_ <= best) {
      best = current_;
      *order = order_;
    } else {
      begin(*order);
    }
    if (is_done() || places_ < 3) {
      OVERLORD_CHECK(best <= first, "searching makes no order slower");
      return best;
    }
    disturb(round);
  }
}

void PipelineSearch::begin(std::span<const uint32_t> order) {
  order_.assign(order.begin(), order.end());
  OVERLORD_CHECK(order_.size() == places_, "an order names every microbatch");
  place_times_.clear();
  for (const uint32_t microbatch : order_) {
    place_times_.push_back(times_[2 * microbatch]);
    place_times_.push_back(times_[2 * microbatch + 1]);
  }
  current_ = schedule_.run(place_times_, 0, ends_);
  trial_same_ = 0;
  operations_ += schedule_.runs() + chains_.size() * places_;
  for (KnownChain& chain : chains_) chain.cost = cost_of(chain.counts);
  learn_chain(ends_);
}

// Goes on over all places, in turn, until a whole turn found nothing.
void PipelineSearch::descend() {
  uint32_t in_vain = 0;
  for (uint32_t place = 0; in_vain < places_ && !is_done(); place = (place + 1) % places_) {
    in_vain = improve_from(place) ? 0 : in_vain + 1;
  }
}

bool PipelineSearch::improve_from(uint32_t place) {
  operations_ += 2 * places_;
  for (uint32_t other = place + 1; other < places_; ++other) {
    const Change swap{place, other, true};
    if (!is_hopeless(swap) && try_change(swap)) return true;
  }
  // Moves to the left and to the right, one place further each time. `shifted` is what the critical
  // chain costs when those on the way have made room; the last place takes what moves.
  for (const bool right : {false, true}) {
    int64_t shifted = current_;
    for (uint32_t at = place; right ? at + 1 < places_ : at > 0;) {
      const Chain& counts = chains_[critical_].counts;
      const uint32_t next = right ? at + 1 : at - 1;
      shifted += one_place(counts, at, next);
      at = next;
      if (shifted + one_place(counts, at, place) >= current_) continue;
      const Change move{place, at, false};
      if (!is_hopeless(move) && try_change(move)) return true;
    }
  }
  return false;
}

// Change in what `place` adds to a chain when it gets what stands at `instead`.
int64_t PipelineSearch::one_place(const Chain& counts, uint32_t place, uint32_t instead) const {
  return counts[2 * place] * (place_times_[2 * instead] - place_times_[2 * place]) +
         counts[2 * place + 1] * (place_times_[2 * instead + 1] - place_times_[2 * place + 1]);
}

int64_t PipelineSearch::cost_of(const Chain& counts) const {
  int64_t cost = 0;
  for (size_t i = 0; i < counts.size(); ++i) cost += counts[i] * place_times_[i];
  return cost;
}

int64_t PipelineSearch::cost_change(const Chain& counts, const Change& change) const {
  const auto [from, to, swap] = change;
  int64_t sum = one_place(counts, to, from);
  if (swap) return sum + one_place(counts, from, to);
  for (uint32_t at = from; at < to; ++at) sum += one_place(counts, at, at + 1);
  for (uint32_t at = from; at > to; --at) sum += one_place(counts, at, at - 1);
  return sum;
}

bool PipelineSearch::is_hopeless(const Change& change) {
  const KnownChain& critical = chains_[critical_];
  if (critical.cost + cost_change(critical.counts, change) >= current_) return true;
  const uint32_t range = change.swap               ? 1
                         : change.to > change.from ? change.to - change.from
                                                   : change.from - change.to;
  for (size_t i = 0; i < usefulness_.size(); ++i) {
    const KnownChain& chain = chains_[usefulness_[i]];
    operations_ += range;
    if (chain.cost + cost_change(chain.counts, change) < current_) continue;
    std::swap(usefulness_[i], usefulness_[i / 2]);
    return true;
  }
  return false;
}

bool PipelineSearch::try_change(const Change& change) {
  apply(change);
  const uint32_t first = schedule_.first_run(std::min(change.from, change.to));
  if (trial_same_ < first + 1) {
    std::copy(ends_.begin() + trial_same_, ends_.begin() + first + 1,
              trial_ends_.begin() + trial_same_);
  }
  trial_same_ = first + 1;
  const int64_t makespan = schedule_.run(place_times_, first, trial_ends_);
  operations_ += schedule_.runs() - first;
  if (makespan < current_) {
    apply(change.swap ? change : Change{change.to, change.from, false});
    for (KnownChain& chain : chains_) chain.cost += cost_change(chain.counts, change);
    operations_ += chains_.size() * 4;
    apply(change);
    current_ = makespan;
    std::swap(ends_, trial_ends_);
    learn_chain(ends_);
    return true;
  }
  apply(change.swap ? change : Change{change.to, change.from, false});
  learn_chain(trial_ends_);
  return false;
}

void PipelineSearch::apply(const Change& change) {
  OVERLORD_CHECK(change.from < places_ && change.to < places_, "a change of two places");
  const auto [from, to, swap] = change;
  const auto exchange = [this](uint32_t a, uint32_t b) {
    std::swap(order_[a], order_[b]);
    std::swap(place_times_[2 * a], place_times_[2 * b]);
    std::swap(place_times_[2 * a + 1], place_times_[2 * b + 1]);
  };
  if (swap) return exchange(from, to);
  for (uint32_t at = from; at < to; ++at) exchange(at, at + 1);
  for (uint32_t at = from; at > to; --at) exchange(at, at - 1);
}

// Some swaps that nobody asked for; their number and places depend on the round alone.
void PipelineSearch::disturb(uint64_t round) {
  const uint64_t swaps = 2 + round % 3;
  for (uint64_t i = 0; i < swaps; ++i) {
    const auto a = static_cast<uint32_t>(uniform_below(kDisturbingKey, round, 2 * i, places_));
    const auto b = static_cast<uint32_t>(uniform_below(kDisturbingKey, round, 2 * i + 1, places_));
    apply({a, b, true});
  }
  begin(std::vector<uint32_t>(order_));
}

// Keeps the critical chain that `ends` shows; forgets another if there are too many.
void PipelineSearch::learn_chain(std::span<const int64_t> ends) {
  const bool is_current = ends.data() == ends_.data();
  uint32_t slot = next_chain_;
  if (chains_.size() < kMostChains) {
    slot = static_cast<uint32_t>(chains_.size());
    chains_.push_back({Chain(size_t{2} * places_), 0});
    usefulness_.push_back(slot);
  } else {
    if (slot == critical_ && !is_current) slot = (slot + 1) % kMostChains;
    next_chain_ = (slot + 1) % kMostChains;
  }
  KnownChain& chain = chains_[slot];
  schedule_.critical_chain(ends, PipelineSchedule::Prefer::kStage, chain.counts);
  chain.cost = cost_of(chain.counts);
  OVERLORD_CHECK(!is_current || chain.cost == current_,
                 "the critical chain takes as long as the whole");
  operations_ += 3 * places_;
  if (is_current) critical_ = slot;
}

}  // namespace overlord::plan
