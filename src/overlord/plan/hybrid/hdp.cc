// plan_hdp: checks the problem, runs the method, and works out what the plan adds up to.
#include "overlord/plan/hybrid/hdp.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/base/fixed_point.h"
#include "overlord/plan/hybrid/hdp_items.h"
#include "overlord/plan/select/packing.h"

namespace overlord::plan {
namespace {

constexpr uint32_t kMaxLength = 1u << 28;  // keeps sums of squares and costs within 64 bits
constexpr uint32_t kMaxRanks = 1u << 20;
constexpr int64_t kMillion = 1'000'000;

Status check_model(const HdpModel& model) {
  const int64_t least =
      std::min({model.square_fs, model.token_fs, model.fixed_fs, model.activation_fixed_bytes,
                model.to_host_per_s, model.from_host_per_s, model.host_bytes,
                model.ring_token_bytes, model.ring_per_s, model.ring_hop_ns});
  if (least < 0) return invalid_argument("hdp: a coefficient of the model is negative");
  if (model.activation_token_bytes < 1 || model.layers < 1 || model.forward_permille > 1000) {
    return invalid_argument("hdp: the model needs layers, activation bytes, a forward share <= 1");
  }
  return {};
}

Status check_problem(const HdpProblem& problem) {
  OVERLORD_RETURN_IF_ERROR(check_model(problem.model));
  if (problem.ranks < 1 || problem.ranks > kMaxRanks || problem.stages < 1 || problem.align < 1) {
    return invalid_argument("hdp: ranks, stages and align must be positive");
  }
  // So every chunk of every slice has a token.
  if (problem.model.capacity < 4 * uint64_t{problem.align}) {
    return invalid_argument("hdp: capacity must be at least four times align; capacity " +
                            std::to_string(problem.model.capacity));
  }
  if (!problem.targets.empty() && problem.targets.size() != problem.lengths.size()) {
    return invalid_argument("hdp: as many targets as lengths, or none");
  }
  for (size_t i = 0; i < problem.lengths.size(); ++i) {
    if (problem.lengths[i] < 1 || problem.lengths[i] > kMaxLength) {
      return invalid_argument("hdp: a length must be in [1, 2^28]; sequence " + std::to_string(i));
    }
    if (!problem.targets.empty() && problem.targets[i] > problem.lengths[i]) {
      return invalid_argument("hdp: more targets than tokens; sequence " + std::to_string(i));
    }
  }
  return {};
}

uint64_t targets_of(const HdpProblem& problem, uint32_t sequence) {
  OVERLORD_CHECK(sequence < problem.lengths.size(), "a sequence of the problem");
  if (!problem.targets.empty()) return problem.targets[sequence];
  return problem.lengths[sequence] - 1;  // the last token of a document has no target
}

void pack_short(const HdpProblem& problem, std::vector<uint32_t> sequences, HdpItems* items) {
  const auto lengths = problem.lengths;
  std::ranges::stable_sort(sequences, std::ranges::greater{},
                           [&](uint32_t s) { return lengths[s]; });
  LengthIndex gaps;
  gaps.reset(problem.model.capacity);
  for (const uint32_t sequence : sequences) {
    const uint32_t length = lengths[sequence];
    uint32_t pack = gaps.pop_at_least(length);
    if (pack == kNoItem) {
      pack = static_cast<uint32_t>(items->packs.size());
      items->packs.emplace_back();
    }
    HdpPack& into = items->packs[pack];
    into.sequences.push_back(sequence);
    into.tokens += length;
    OVERLORD_CHECK(into.tokens <= problem.model.capacity, "a pack fits a rank");
    into.squares += uint64_t{length} * length;
    const auto gap = static_cast<uint32_t>(problem.model.capacity - into.tokens);
    if (gap > 0) gaps.push(gap, pack);
  }
}

// Fills in what follows from members and sequences: offloading, tokens, cost.
void weigh(const HdpProblem& problem, HdpGroup* group) {
  OVERLORD_CHECK(!group->ranks.empty() && !group->sequences.empty(), "somebody works on something");
  uint64_t squares = 0;
  uint64_t share = 0;
  group->tokens = 0;
  group->targets = 0;
  const auto members = static_cast<uint32_t>(group->ranks.size());
  for (const uint32_t sequence : group->sequences) {
    const uint64_t length = problem.lengths[sequence];
    group->tokens += length;
    group->targets += targets_of(problem, sequence);
    squares += length * length;
    share += largest_share(problem.lengths[sequence], members, problem.align);
  }
  group->cost_ns =
      duration_of(problem.model, work_of(problem.model, group->tokens, squares), members);
  const bool alone = problem.offload && group->sequences.size() == 1;
  const uint32_t limit =
      alone ? offload_limit(problem.model, problem.lengths[group->sequences.front()]) : 0;
  const auto needed = offload_needed(problem.model, static_cast<uint32_t>(share), limit);
  OVERLORD_CHECK(needed.has_value(), "a group was planned that does not fit its ranks");
  group->offload_permille = *needed;
}

Result<HdpPlan> run_method(const HdpProblem& problem) {
  OVERLORD_TRY(const HdpItems items, items_of(problem));
  if (problem.method == HdpMethod::kSearch) return search_plan(problem, items);
  return finish_plan(problem, problem.method == HdpMethod::kNaive ? naive_groups(problem, items)
                                                                  : bucket_groups(problem, items));
}

}  // namespace

Result<HdpItems> items_of(const HdpProblem& problem) {
  HdpItems items;
  std::vector<uint32_t> shorts;
  for (uint32_t i = 0; i < problem.lengths.size(); ++i) {
    const uint32_t length = problem.lengths[i];
    if (length <= problem.model.capacity) {
      shorts.push_back(i);
      continue;
    }
    const auto least = least_ranks(problem, length);
    if (!least) {
      return invalid_argument("hdp: a sequence does not fit all ranks together; sequence " +
                              std::to_string(i) + " of " + std::to_string(length) + " tokens");
    }
    const uint32_t units = length / problem.align;
    const uint32_t most = std::max(*least, std::min(problem.ranks, units / 2));
    OVERLORD_CHECK(*least <= most && most <= problem.ranks,
                   "a long sequence is cut over ranks that are there");
    items.longs.push_back(
        {i, length, *least, most, work_of(problem.model, length, uint64_t{length} * length)});
  }
  pack_short(problem, std::move(shorts), &items);
  return items;
}

HdpGroup bare_group(std::vector<uint32_t> ranks, std::vector<uint32_t> sequences) {
  HdpGroup group;
  group.ranks = std::move(ranks);
  group.sequences = std::move(sequences);
  return group;
}

int64_t RankTimes::run(std::span<const uint32_t> ranks, int64_t cost_ns) {
  OVERLORD_CHECK(cost_ns >= 0 && !ranks.empty(), "time does not run back");
  int64_t start = 0;
  for (const uint32_t rank : ranks) start = std::max(start, free_ns[rank]);
  for (const uint32_t rank : ranks) free_ns[rank] = start + cost_ns;
  return start;
}

int64_t RankTimes::latest() const { return *std::ranges::max_element(free_ns); }

HdpBound lower_bound(const HdpProblem& problem) {
  const HdpModel& model = problem.model;
  const int64_t fixed = duration_of(model, {}, 1);
  Int128 linear = 0;
  Int128 attention = 0;
  Int128 ring = 0;
  uint64_t short_tokens = 0;
  uint32_t longest = kNoSequence;
  for (uint32_t i = 0; i < problem.lengths.size(); ++i) {
    const uint64_t length = problem.lengths[i];
    if (longest == kNoSequence || length > problem.lengths[longest]) longest = i;
    const HdpWork work = work_of(model, length, length * length);
    linear += work.linear_ns;
    attention += work.attention_ns;
    if (length <= model.capacity) {
      short_tokens += length;
    } else {
      // More ranks than memory asks for only add to what all of them spend together.
      const int64_t n = least_ranks(problem, problem.lengths[i]).value_or(problem.ranks);
      ring += Int128{work.ring_ns} * (n - 1);
    }
  }
  // Sequences of one group may hide each other's ring, so the larger sum counts, not each larger
  // one.
  const Int128 total =
      linear + std::max(attention, ring) + (fixed - 1) * ceil_div(short_tokens, model.capacity);
  HdpBound bound{static_cast<int64_t>(floor_div(total, problem.ranks)), 0, longest};
  if (longest == kNoSequence) return bound;
  // The longest sequence alone, on the number of ranks that suits it best.
  const uint64_t length = problem.lengths[longest];
  const HdpWork work = work_of(model, length, length * length);
  const uint32_t from =
      length <= model.capacity
          ? 1
          : least_ranks(problem, problem.lengths[longest]).value_or(problem.ranks);
  const uint32_t to = length <= model.capacity ? 1 : problem.ranks;
  bound.alone_ns = duration_of(model, work, from);
  for (uint32_t n = from + 1; n <= to; ++n) {
    bound.alone_ns = std::min(bound.alone_ns, duration_of(model, work, n));
  }
  return bound;
}

HdpPlan finish_plan(const HdpProblem& problem, std::vector<HdpGroup> groups) {
  HdpPlan plan;
  RankTimes times(problem.ranks);
  std::vector<int64_t> largest(problem.ranks);
  std::vector<uint32_t> next_number(problem.ranks);
  plan.rank_microbatches.resize(problem.ranks);
  size_t sequences = 0;
  for (HdpGroup& group : groups) {
    weigh(problem, &group);
    sequences += group.sequences.size();
    group.start_ns = times.run(group.ranks, group.cost_ns);
    group.microbatch = 0;
    for (const uint32_t rank : group.ranks) {
      group.microbatch = std::max(group.microbatch, next_number[rank]);
      largest[rank] = std::max(largest[rank], group.cost_ns);
      ++plan.rank_microbatches[rank];
    }
    for (const uint32_t rank : group.ranks) next_number[rank] = group.microbatch + 1;
    if (plan.microbatch_targets.size() <= group.microbatch) {
      plan.microbatch_targets.resize(group.microbatch + 1);
    }
    plan.microbatch_targets[group.microbatch] += group.targets;
    plan.targets += group.targets;
  }
  OVERLORD_CHECK(sequences == problem.lengths.size(), "every sequence is in a group");
  plan.groups = std::move(groups);
  // A pipeline whose stages all take the same time for a microbatch is done when one stage has run
  // all of them, and the largest one more time for each further stage, in whatever order.
  plan.rank_ns = std::move(times.free_ns);
  for (uint32_t rank = 0; rank < problem.ranks; ++rank) {
    plan.rank_ns[rank] += (problem.stages - 1) * largest[rank];
  }
  plan.makespan_ns = *std::ranges::max_element(plan.rank_ns);
  const HdpBound bound = lower_bound(problem);
  plan.lower_bound_ns = bound.of_plan(problem.stages);
  plan.limiting_sequence = plan.lower_bound_ns > bound.mean_ns ? bound.longest : kNoSequence;
  if (plan.lower_bound_ns > 0) {
    plan.gap_ppm =
        mul_div_ceil(plan.makespan_ns - plan.lower_bound_ns, kMillion, plan.lower_bound_ns);
  }
  return plan;
}

Result<HdpPlan> plan_hdp(const HdpProblem& problem) {
  OVERLORD_RETURN_IF_ERROR(check_problem(problem));
  OVERLORD_TRY(HdpPlan plan, run_method(problem));
  OVERLORD_CHECK(plan.rank_ns.size() == problem.ranks, "a time for every rank");
  const uint32_t most = *std::ranges::max_element(plan.rank_microbatches);
  if (problem.max_microbatches > 0 && most > problem.max_microbatches) {
    return invalid_argument("hdp: a rank needs more microbatches than max_microbatches; needs " +
                            std::to_string(most));
  }
  return plan;
}

}  // namespace overlord::plan
