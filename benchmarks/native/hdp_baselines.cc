#include "hdp_baselines.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <string>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/plan/hybrid/hdp_items.h"
#include "overlord/plan/select/packing.h"

namespace overlord::bench {
namespace {

using plan::bare_group;
using plan::duration_of;
using plan::HdpGroup;
using plan::HdpPlan;
using plan::HdpProblem;
using plan::HdpWork;
using plan::largest_share;
using plan::work_of;

constexpr int64_t kEvenPercent = 5;  // a microbatch is full when its ranks differ by less

std::vector<uint32_t> rank_range(uint32_t first, uint32_t count) {
  std::vector<uint32_t> ranks(count);
  std::iota(ranks.begin(), ranks.end(), first);
  return ranks;
}

Status too_long(uint32_t sequence) {
  return invalid_argument("hdp: a sequence does not fit all ranks together; sequence " +
                          std::to_string(sequence));
}

// One microbatch of power-of-two groups while it is filled.
class PowerOfTwoMicrobatch {
 public:
  PowerOfTwoMicrobatch(const HdpProblem& problem, std::vector<HdpGroup>* out)
      : problem_(problem), out_(out), times_(problem.ranks) {}

  // Takes the sequence into a new group, or into the least loaded of its size.
  bool add(uint32_t sequence, uint32_t size) {
    if (used_ + size <= problem_.ranks) {
      open_.push_back({size, {}, 0, 0, 0, 0});
      used_ += size;
      join(&open_.back(), sequence);
      return true;
    }
    Open* least = nullptr;
    for (Open& group : open_) {
      const uint32_t share = largest_share(problem_.lengths[sequence], size, problem_.align);
      if (group.size != size || group.share + share > problem_.model.capacity) continue;
      if (least == nullptr || group.cost_ns < least->cost_ns) least = &group;
    }
    if (least == nullptr) return false;
    // Beyond the longest group of the microbatch everybody would wait.
    const Open before = *least;
    join(least, sequence);
    if (least->cost_ns * 100 <= latest_ * (100 + kEvenPercent)) return true;
    *least = before;
    return false;
  }

  bool full() const {
    if (used_ < problem_.ranks) return false;
    const auto [low, high] = std::ranges::minmax_element(open_, {}, &Open::cost_ns);
    return (high->cost_ns - low->cost_ns) * 100 <= high->cost_ns * kEvenPercent;
  }

  // Idle ranks double the smallest groups; then the longest gets the ranks that are free first
  // (which is kinder than fixed places).
  void close() {
    OVERLORD_CHECK(used_ <= problem_.ranks, "groups of a microbatch have ranks of their own");
    for (bool doubled = true; doubled && used_ < problem_.ranks;) {
      doubled = false;
      std::ranges::stable_sort(open_, {}, &Open::size);
      for (Open& group : open_) {
        if (used_ + group.size > problem_.ranks) continue;
        used_ += group.size;
        group.size *= 2;
        doubled = true;
        break;
      }
    }
    for (Open& group : open_) group.cost_ns = cost_of(group);
    std::ranges::stable_sort(open_, std::ranges::greater{}, &Open::cost_ns);
    std::vector<uint32_t> earliest = rank_range(0, problem_.ranks);
    std::ranges::stable_sort(earliest, {}, [&](uint32_t rank) { return times_.free_ns[rank]; });
    auto next = earliest.begin();
    for (Open& group : open_) {
      std::vector<uint32_t> ranks(next, next + group.size);
      next += group.size;
      std::ranges::sort(ranks);
      times_.run(ranks, group.cost_ns);
      out_->push_back(bare_group(std::move(ranks), std::move(group.sequences)));
    }
    open_.clear();
    used_ = 0;
    latest_ = 0;
  }

 private:
  struct Open {
    uint32_t size;
    std::vector<uint32_t> sequences;
    uint64_t share;  // tokens of the fullest member
    uint64_t tokens;
    uint64_t squares;
    int64_t cost_ns;
  };

  int64_t cost_of(const Open& group) const {
    const HdpWork work = work_of(problem_.model, group.tokens, group.squares);
    return duration_of(problem_.model, work, group.size);
  }

  void join(Open* group, uint32_t sequence) {
    const uint64_t length = problem_.lengths[sequence];
    group->sequences.push_back(sequence);
    group->share += largest_share(problem_.lengths[sequence], group->size, problem_.align);
    group->tokens += length;
    group->squares += length * length;
    group->cost_ns = cost_of(*group);
    if (group->sequences.size() == 1) latest_ = std::max(latest_, group->cost_ns);
  }

  const HdpProblem& problem_;
  std::vector<HdpGroup>* out_;
  plan::RankTimes times_;
  std::vector<Open> open_;
  uint32_t used_ = 0;
  int64_t latest_ = 0;
};

}  // namespace

Result<HdpPlan> plan_static(const HdpProblem& problem, uint32_t context) {
  if (problem.lengths.empty()) return plan::finish_plan(problem, {});
  context = std::max(context, *std::ranges::max_element(problem.lengths));
  uint32_t size = 1;
  while (size < problem.ranks &&
         (problem.ranks % size != 0 ||
          largest_share(context, size, problem.align) > problem.model.capacity)) {
    ++size;
  }
  if (largest_share(context, size, problem.align) > problem.model.capacity) {
    return too_long(
        static_cast<uint32_t>(std::ranges::max_element(problem.lengths) - problem.lengths.begin()));
  }
  std::vector<std::vector<uint32_t>> bins;
  std::vector<uint32_t> gaps;
  plan::LengthIndex by_gap;
  by_gap.reset(problem.model.capacity);
  for (uint32_t i = 0; i < problem.lengths.size(); ++i) {
    const uint32_t share = largest_share(problem.lengths[i], size, problem.align);
    uint32_t bin = by_gap.pop_at_least(share);
    if (bin == plan::kNoItem) {
      bin = static_cast<uint32_t>(bins.size());
      bins.emplace_back();
      gaps.push_back(problem.model.capacity);
    }
    bins[bin].push_back(i);
    OVERLORD_CHECK(gaps[bin] >= share, "a bin takes what it has room for");
    gaps[bin] -= share;
    if (gaps[bin] > 0) by_gap.push(gaps[bin], bin);
  }
  const uint32_t replicas = problem.ranks / size;
  std::vector<HdpGroup> groups;
  for (uint32_t bin = 0; bin < bins.size(); ++bin) {
    groups.push_back(bare_group(rank_range(bin % replicas * size, size), std::move(bins[bin])));
  }
  return plan::finish_plan(problem, std::move(groups));
}

Result<HdpPlan> plan_powers_of_two(const HdpProblem& problem) {
  std::vector<std::vector<uint32_t>> by_size;  // by log2 of the size, longest first
  std::vector<uint32_t> order(problem.lengths.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](uint32_t i) { return problem.lengths[i]; });
  for (const uint32_t sequence : order) {
    uint32_t power = 0;
    while (largest_share(problem.lengths[sequence], 1u << power, problem.align) >
           problem.model.capacity) {
      ++power;
    }
    if ((1u << power) > problem.ranks) return too_long(sequence);
    if (by_size.size() <= power) by_size.resize(power + 1);
    by_size[power].push_back(sequence);
  }
  for (auto& sequences : by_size) std::ranges::reverse(sequences);
  std::vector<HdpGroup> groups;
  PowerOfTwoMicrobatch microbatch(problem, &groups);
  size_t left = order.size();
  while (left > 0) {
    const size_t before = left;
    for (size_t power = by_size.size(); power-- > 0 && !microbatch.full();) {
      while (!by_size[power].empty() && !microbatch.full() &&
             microbatch.add(by_size[power].back(), 1u << power)) {
        by_size[power].pop_back();
        --left;
      }
    }
    OVERLORD_CHECK(left < before, "every microbatch takes a sequence");
    microbatch.close();
  }
  return plan::finish_plan(problem, std::move(groups));
}

}  // namespace overlord::bench
