// The default scheduler: for a time limit just above the lower bound, places the sequences, longest
// first, choosing where and over how many ranks together; raises the limit until all have a place.
//
// Places are judged on the ranks sorted by when they are free. A group that ends at the limit may
// start on ranks of any one time; it then takes the ranks that were free last before it, and as few
// as make the limit. What they wait is a hole that packs on one rank fill afterwards.
#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/plan/hybrid/hdp_items.h"

namespace overlord::plan {
namespace {

constexpr int64_t kForever = int64_t{1} << 60;
// Limits that are tried, in 1/1024 above the lower bound.
constexpr int64_t kLimits[] = {2,  4,  6,  8,  12,  16,  20,  24,  28, 32,
                               40, 48, 64, 96, 128, 192, 256, 384, 512};

// How far groups may be longer than the longest sequence at its fastest, in 1/1024; pipelines only.
constexpr int64_t kCaps[] = {0, 4, 16, 64, 256, 512, 1024, 2048};

constexpr int64_t kCloseEnoughPpm = 2000;

enum class Preference { kEarliestEnd, kLeastWaste, kTightest };

struct Slot {
  int64_t free_ns;
  uint32_t rank;
  auto operator<=>(const Slot&) const = default;
};

struct Started {
  int64_t start_ns;
  HdpGroup group;
};

// A pack that was placed behind everything else of its rank, so that it may still grow.
struct TailPack {
  size_t group;
  uint64_t tokens;
};

class Placement {
 public:
  // Every rank is free at `limit` and no group takes longer than `cap`.
  Placement(const HdpProblem& problem, int64_t limit, int64_t cap, Preference preference)
      : problem_(problem),
        limit_(limit),
        cap_(cap),
        preference_(preference),
        slots_(problem.ranks),
        counts_(problem.ranks),
        tails_(problem.ranks) {
    for (uint32_t rank = 0; rank < problem.ranks; ++rank) slots_[rank] = {0, rank};
  }

  bool place_long(const HdpLong& item);
  bool place_packs(const std::vector<HdpPack>& packs);

  std::vector<HdpGroup> groups() && {
    std::ranges::stable_sort(started_, {}, &Started::start_ns);
    std::vector<HdpGroup> out;
    out.reserve(started_.size());
    for (Started& each : started_) out.push_back(std::move(each.group));
    return out;
  }

 private:
  struct Choice {
    size_t last = 0;  // slots [last - ranks + 1, last]
    uint32_t ranks = 0;
    int64_t cost = 0;
    int64_t score = kForever;
    int64_t tie = kForever;
  };

  bool may_run_more(uint32_t rank) const {
    return problem_.max_microbatches == 0 || counts_[rank] < problem_.max_microbatches;
  }
  int64_t room(int64_t start) const { return std::min(limit_ - start, cap_); }
  uint32_t allowed(uint32_t ranks) const;
  uint32_t fewest_ranks(const HdpLong& item, uint32_t best, int64_t room) const;
  void consider(const HdpLong& item, size_t last, uint32_t ranks, int64_t cost, Choice* choice);
  void take(const HdpLong& item, const Choice& choice);
  bool place_sequences(const std::vector<uint32_t>& sequences);
  bool grow_tail(uint32_t rank, uint32_t sequence);
  bool put_in_hole(const HdpPack& pack, int64_t cost);
  bool put_at_end(const HdpPack& pack, int64_t cost);

  const HdpProblem& problem_;
  const int64_t limit_;
  const int64_t cap_;
  const Preference preference_;
  std::vector<Slot> slots_;  // sorted; ranks that may run no more are not in it
  std::vector<uint32_t> counts_;
  std::vector<Started> started_;
  std::multimap<int64_t, Slot> holes_;  // by length; when it begins and whose it is
  std::set<Slot> ends_;                 // as slots_, once all long sequences have their place
  std::vector<std::vector<TailPack>> tails_;
  std::vector<int64_t> waits_;  // sums of slots_, refreshed before each long sequence
};

uint32_t Placement::allowed(uint32_t ranks) const {
  if (!problem_.powers_of_two) return ranks;
  uint32_t power = 1;
  while (power < ranks) power *= 2;
  return power;
}

// The number of ranks that makes a sequence fastest; more of them only wait for the ring.
uint32_t fastest_ranks(const HdpProblem& problem, const HdpLong& item) {
  uint32_t low = item.least;
  uint32_t high = item.most;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    const bool falls = duration_of(problem.model, item.work, middle + 1) <=
                       duration_of(problem.model, item.work, middle);
    if (falls) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// As few as make it in `room`, or 0.
uint32_t Placement::fewest_ranks(const HdpLong& item, uint32_t best, int64_t room) const {
  if (duration_of(problem_.model, item.work, best) > room) return 0;
  uint32_t low = item.least;
  uint32_t high = best;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (duration_of(problem_.model, item.work, middle) <= room) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  OVERLORD_CHECK(low >= item.least, "no sequence gets fewer ranks than it needs");
  const uint32_t ranks = allowed(low);
  if (ranks > problem_.ranks || duration_of(problem_.model, item.work, ranks) > room) return 0;
  return ranks;
}

void Placement::consider(const HdpLong& item, size_t last, uint32_t ranks, int64_t cost,
                         Choice* choice) {
  const size_t first = last + 1 - ranks;
  const int64_t start = slots_[last].free_ns;
  const int64_t waiting = start * ranks - (waits_[last + 1] - waits_[first]);
  OVERLORD_CHECK(waiting >= 0, "ranks are sorted by when they are free");
  const int64_t overhead = cost * ranks - item.work.attention_ns - item.work.linear_ns;
  int64_t score = waiting + overhead;
  int64_t tie = -start;
  if (preference_ == Preference::kEarliestEnd) {
    tie = score;
    score = start + cost;
  } else if (preference_ == Preference::kTightest) {
    score += (limit_ - start - cost) * static_cast<int64_t>(ranks) / 4;  // left above it
  }
  if (std::pair(score, tie) < std::pair(choice->score, choice->tie)) {
    *choice = {last, ranks, cost, score, tie};
  }
}

bool Placement::place_long(const HdpLong& item) {
  waits_.resize(slots_.size() + 1);
  for (size_t i = 0; i < slots_.size(); ++i) waits_[i + 1] = waits_[i] + slots_[i].free_ns;
  const uint32_t least = allowed(item.least);
  if (least > slots_.size()) return false;
  const int64_t least_cost = duration_of(problem_.model, item.work, least);
  const uint32_t best = fastest_ranks(problem_, item);
  Choice choice;
  for (size_t last = 0; last < slots_.size(); ++last) {
    const int64_t start = slots_[last].free_ns;
    if (last + 1 < slots_.size() && slots_[last + 1].free_ns == start) continue;
    const int64_t left = room(start);
    if (left <= 0) break;
    uint32_t ranks = least;
    int64_t cost = least_cost;
    if (least_cost > left) {
      ranks = fewest_ranks(item, best, left);
      if (ranks == 0) continue;
      cost = duration_of(problem_.model, item.work, ranks);
    }
    if (ranks <= last + 1) consider(item, last, ranks, cost, &choice);
  }
  if (choice.ranks == 0) return false;
  take(item, choice);
  return true;
}

void Placement::take(const HdpLong& item, const Choice& choice) {
  OVERLORD_CHECK(choice.ranks >= item.least && choice.ranks <= choice.last + 1,
                 "a sequence gets the ranks that it needs");
  const auto end = slots_.begin() + static_cast<ptrdiff_t>(choice.last) + 1;
  const auto begin = end - choice.ranks;
  const int64_t start = slots_[choice.last].free_ns;
  std::vector<uint32_t> ranks;
  for (auto it = begin; it != end; ++it) {
    ranks.push_back(it->rank);
    if (it->free_ns < start && may_run_more(it->rank)) {
      holes_.emplace(start - it->free_ns, *it);
    }
    ++counts_[it->rank];
  }
  OVERLORD_CHECK(start + choice.cost <= limit_, "a group ends within the limit");
  slots_.erase(begin, end);
  std::ranges::sort(ranks);
  std::vector<Slot> later;
  for (const uint32_t rank : ranks) {
    if (may_run_more(rank)) later.push_back({start + choice.cost, rank});
  }
  const auto old = static_cast<ptrdiff_t>(slots_.size());
  slots_.insert(slots_.end(), later.begin(), later.end());
  std::inplace_merge(slots_.begin(), slots_.begin() + old, slots_.end());
  started_.push_back({start, bare_group(std::move(ranks), {item.sequence})});
}

bool Placement::put_in_hole(const HdpPack& pack, int64_t cost) {
  for (auto it = holes_.lower_bound(cost); it != holes_.end();) {
    const auto [length, slot] = *it;
    if (!may_run_more(slot.rank)) {
      it = holes_.erase(it);
      continue;
    }
    OVERLORD_CHECK(length >= cost, "a hole is as long as what fills it");
    holes_.erase(it);
    ++counts_[slot.rank];
    started_.push_back({slot.free_ns, bare_group({slot.rank}, pack.sequences)});
    if (length > cost) holes_.emplace(length - cost, Slot{slot.free_ns + cost, slot.rank});
    return true;
  }
  return false;
}

bool Placement::put_at_end(const HdpPack& pack, int64_t cost) {
  for (auto it = ends_.begin(); it != ends_.end();) {
    if (!may_run_more(it->rank)) {
      it = ends_.erase(it);
      continue;
    }
    if (cost > room(it->free_ns)) return false;
    const Slot slot = *it;
    ends_.erase(it);
    ends_.insert({slot.free_ns + cost, slot.rank});
    ++counts_[slot.rank];
    tails_[slot.rank].push_back({started_.size(), pack.tokens});
    started_.push_back({slot.free_ns, bare_group({slot.rank}, pack.sequences)});
    return true;
  }
  return false;
}

bool Placement::place_packs(const std::vector<HdpPack>& packs) {
  ends_ = {slots_.begin(), slots_.end()};
  std::vector<std::pair<int64_t, uint32_t>> order;
  for (uint32_t i = 0; i < packs.size(); ++i) {
    const HdpWork work = work_of(problem_.model, packs[i].tokens, packs[i].squares);
    order.emplace_back(-duration_of(problem_.model, work, 1), i);
  }
  std::ranges::sort(order);
  std::vector<uint32_t> loose;
  for (const auto& [negative_cost, i] : order) {
    if (put_in_hole(packs[i], -negative_cost) || put_at_end(packs[i], -negative_cost)) continue;
    loose.insert(loose.end(), packs[i].sequences.begin(), packs[i].sequences.end());
  }
  std::ranges::stable_sort(loose, std::ranges::greater{},
                           [&](uint32_t s) { return problem_.lengths[s]; });
  return place_sequences(loose);
}

// A sequence joins the fullest pack at the end of the rank that takes it.
bool Placement::grow_tail(uint32_t rank, uint32_t sequence) {
  TailPack* fullest = nullptr;
  for (TailPack& pack : tails_[rank]) {
    if (pack.tokens + problem_.lengths[sequence] > problem_.model.capacity) continue;
    if (fullest == nullptr || pack.tokens > fullest->tokens) fullest = &pack;
  }
  if (fullest == nullptr) return false;
  fullest->tokens += problem_.lengths[sequence];
  OVERLORD_CHECK(fullest->tokens <= problem_.model.capacity, "a pack fits a rank");
  started_[fullest->group].group.sequences.push_back(sequence);
  return true;
}

// What did not fit as whole packs: sequence by sequence, on the rank that is free first.
bool Placement::place_sequences(const std::vector<uint32_t>& sequences) {
  for (const uint32_t sequence : sequences) {
    const uint64_t length = problem_.lengths[sequence];
    const HdpPack alone{{sequence}, length, length * length};
    const HdpWork work = work_of(problem_.model, length, length * length);
    const int64_t cost = duration_of(problem_.model, work, 1);
    if (put_in_hole(alone, cost)) continue;
    if (ends_.empty()) return false;
    const Slot slot = *ends_.begin();
    if (slot.free_ns + cost <= limit_ && grow_tail(slot.rank, sequence)) {
      ends_.erase(ends_.begin());
      ends_.insert({slot.free_ns + cost, slot.rank});
      continue;
    }
    if (!put_at_end(alone, cost)) return false;
  }
  return true;
}

bool place_all(const HdpItems& items, const std::vector<uint32_t>& order, Placement* placement) {
  for (const uint32_t i : order) {
    if (!placement->place_long(items.longs[i])) return false;
  }
  return placement->place_packs(items.packs);
}

// The first limit above `least` under which everything has a place.
std::optional<std::vector<HdpGroup>> place_near(const HdpProblem& problem, const HdpItems& items,
                                                const std::vector<uint32_t>& order, int64_t least,
                                                int64_t cap) {
  for (const int64_t above : kLimits) {
    const int64_t limit = least + least / 1024 * above + 1;
    for (const auto preference :
         {Preference::kEarliestEnd, Preference::kLeastWaste, Preference::kTightest}) {
      Placement placement(problem, limit, cap, preference);
      if (place_all(items, order, &placement)) return std::move(placement).groups();
    }
  }
  return std::nullopt;
}

}  // namespace

HdpPlan search_plan(const HdpProblem& problem, const HdpItems& items) {
  std::vector<uint32_t> order(items.longs.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](uint32_t i) { return items.longs[i].length; });
  const HdpBound bound = lower_bound(problem);
  int64_t shortest_cap = bound.alone_ns;
  for (const HdpPack& pack : items.packs) {
    const HdpWork work = work_of(problem.model, pack.tokens, pack.squares);
    shortest_cap = std::max(shortest_cap, duration_of(problem.model, work, 1));
  }
  const auto too_many = [&](const HdpPlan& plan) {
    return problem.max_microbatches > 0 &&
           *std::ranges::max_element(plan.rank_microbatches) > problem.max_microbatches;
  };
  std::optional<HdpPlan> best;
  const auto offer = [&](std::vector<HdpGroup> groups) {
    HdpPlan plan = finish_plan(problem, std::move(groups));
    if (!best || std::pair(too_many(plan), plan.makespan_ns) <
                     std::pair(too_many(*best), best->makespan_ns)) {
      best = std::move(plan);
    }
  };
  const auto is_close = [&] { return best && !too_many(*best) && best->gap_ppm < kCloseEnoughPpm; };
  if (problem.balance == HdpBalance::kDp || problem.stages == 1) {
    auto groups = place_near(problem, items, order, bound.of_plan(1), kForever);
    if (groups) offer(*std::move(groups));
    if (is_close()) return *std::move(best);
  } else {
    // Later stages wait for the largest microbatch once each: short ones against well-filled ranks.
    for (const int64_t above : kCaps) {
      const int64_t cap = shortest_cap + shortest_cap / 1024 * above + 1;
      auto groups = place_near(problem, items, order, std::max(bound.mean_ns, cap), cap);
      if (groups) offer(*std::move(groups));
      if (is_close()) return *std::move(best);
    }
  }
  // Without a limit every place is good, and the earliest end is taken.
  Placement placement(problem, kForever, kForever, Preference::kEarliestEnd);
  if (place_all(items, order, &placement)) offer(std::move(placement).groups());
  if (!problem.powers_of_two || !best) offer(bucket_groups(problem, items));
  OVERLORD_CHECK(best.has_value(), "buckets always give a plan");
  return *std::move(best);
}

}  // namespace overlord::plan
