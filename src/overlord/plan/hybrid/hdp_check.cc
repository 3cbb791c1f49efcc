// check_hdp: judges a plan by the problem alone, without trusting how it was made.
#include <algorithm>
#include <string>
#include <vector>

#include "overlord/plan/hybrid/hdp.h"

namespace overlord::plan {
namespace {

Status broken(const char* what, uint64_t where) {
  return invalid_argument(std::string("hdp plan: ") + what + "; at " + std::to_string(where));
}

// Slices of a sequence over a group: every token once, chunks in order, even to one unit.
Status check_slices(uint32_t length, uint32_t members, uint32_t align) {
  std::vector<HdpChunk> chunks(2 * size_t{members});
  for (uint32_t member = 0; member < members; ++member) {
    const HdpSlice slice = slice_of(length, members, member, align);
    chunks[member] = slice.low;
    chunks[chunks.size() - 1 - member] = slice.high;
  }
  uint64_t next = 0;
  uint32_t least = length;
  uint32_t most = 0;
  for (const HdpChunk& chunk : chunks) {
    if (chunk.count > 0 && chunk.first != next) return broken("slices do not cover", next);
    if (chunk.count > 0 && chunk.first % align != 0) return broken("a chunk is not aligned", next);
    next += chunk.count;
    least = std::min(least, chunk.count);
    most = std::max(most, chunk.count);
  }
  if (next != length) return broken("slices do not cover", next);
  if (most - least > align) return broken("chunks are uneven", length);
  return {};
}

Status check_members(const HdpGroup& group, const HdpProblem& problem, size_t at) {
  if (group.ranks.empty() || group.sequences.empty()) return broken("an empty group", at);
  std::vector<uint32_t> sorted = group.ranks;
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) != sorted.end()) return broken("a rank twice", at);
  if (sorted.back() >= problem.ranks) return broken("a rank that does not exist", at);
  return {};
}

// Memory, tokens and cost of one group.
Status check_contents(const HdpGroup& group, const HdpProblem& problem, size_t at) {
  const auto members = static_cast<uint32_t>(group.ranks.size());
  uint64_t tokens = 0;
  uint64_t squares = 0;
  uint64_t targets = 0;
  uint64_t share = 0;
  uint32_t limit = problem.offload ? 1000 : 0;
  for (const uint32_t sequence : group.sequences) {
    const uint64_t length = problem.lengths[sequence];
    OVERLORD_RETURN_IF_ERROR(check_slices(problem.lengths[sequence], members, problem.align));
    tokens += length;
    squares += length * length;
    targets += problem.targets.empty() ? length - 1 : problem.targets[sequence];
    share += largest_share(problem.lengths[sequence], members, problem.align);
    limit = std::min(limit, offload_limit(problem.model, problem.lengths[sequence]));
  }
  if (tokens != group.tokens || targets != group.targets) return broken("token counts", at);
  const auto needed =
      offload_needed(problem.model, static_cast<uint32_t>(std::min<uint64_t>(share, 1u << 31)),
                     problem.offload ? limit : 0);
  if (!needed) return broken("a group does not fit its ranks", at);
  if (group.offload_permille < *needed || (group.offload_permille > 0 && !problem.offload) ||
      group.offload_permille > std::max(limit, *needed)) {
    return broken("an offload ratio out of bounds", at);
  }
  const HdpWork work = work_of(problem.model, tokens, squares);
  if (group.cost_ns != duration_of(problem.model, work, members)) return broken("a cost", at);
  return {};
}

// Walks the groups in their order with one clock and one microbatch number for each rank.
struct Walk {
  explicit Walk(uint32_t ranks) : free_ns(ranks), largest(ranks), counts(ranks), numbers(ranks) {}

  Status add(const HdpGroup& group, size_t at) {
    for (const uint32_t rank : group.ranks) {
      if (group.start_ns < free_ns[rank]) return broken("a rank in two groups at a time", at);
      if (group.microbatch < numbers[rank]) return broken("microbatch numbers of a rank", at);
    }
    for (const uint32_t rank : group.ranks) {
      free_ns[rank] = group.start_ns + group.cost_ns;
      largest[rank] = std::max(largest[rank], group.cost_ns);
      numbers[rank] = group.microbatch + 1;
      ++counts[rank];
    }
    if (targets.size() <= group.microbatch) targets.resize(group.microbatch + 1);
    targets[group.microbatch] += group.targets;
    return {};
  }

  std::vector<int64_t> free_ns;
  std::vector<int64_t> largest;
  std::vector<uint32_t> counts;
  std::vector<uint32_t> numbers;
  std::vector<uint64_t> targets;
};

Status check_totals(Walk walk, const HdpPlan& plan, const HdpProblem& problem) {
  for (uint32_t rank = 0; rank < problem.ranks; ++rank) {
    walk.free_ns[rank] += (problem.stages - 1) * walk.largest[rank];
    if (problem.max_microbatches > 0 && walk.counts[rank] > problem.max_microbatches) {
      return broken("too many microbatches", rank);
    }
  }
  if (walk.counts != plan.rank_microbatches) return broken("microbatch counts", 0);
  if (walk.free_ns != plan.rank_ns) return broken("rank times", 0);
  if (walk.targets != plan.microbatch_targets) return broken("targets of microbatches", 0);
  uint64_t targets = 0;
  for (const uint64_t each : walk.targets) targets += each;
  if (targets != plan.targets) return broken("targets in all", targets);
  if (plan.makespan_ns != *std::ranges::max_element(walk.free_ns)) return broken("makespan", 0);
  const bool whole = std::ranges::all_of(plan.groups, [&](const HdpGroup& group) {
    return group.ranks.size() == 1 || std::ranges::all_of(group.sequences, [&](uint32_t sequence) {
             return problem.lengths[sequence] > problem.model.capacity;
           });
  });
  if (whole && plan.lower_bound_ns > plan.makespan_ns) return broken("faster than its bound", 0);
  return {};
}

}  // namespace

Status check_hdp(const HdpPlan& plan, const HdpProblem& problem) {
  std::vector<bool> seen(problem.lengths.size());
  size_t count = 0;
  Walk walk(problem.ranks);
  for (size_t at = 0; at < plan.groups.size(); ++at) {
    const HdpGroup& group = plan.groups[at];
    OVERLORD_RETURN_IF_ERROR(check_members(group, problem, at));
    for (const uint32_t sequence : group.sequences) {
      if (sequence >= seen.size()) return broken("a sequence that does not exist", sequence);
      if (seen[sequence]) return broken("a sequence twice", sequence);
      seen[sequence] = true;
      ++count;
    }
    OVERLORD_RETURN_IF_ERROR(check_contents(group, problem, at));
    OVERLORD_RETURN_IF_ERROR(walk.add(group, at));
  }
  if (count != seen.size()) return broken("a sequence is missing", count);
  return check_totals(std::move(walk), plan, problem);
}

}  // namespace overlord::plan
