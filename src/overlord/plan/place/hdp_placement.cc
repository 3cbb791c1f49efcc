#include "overlord/plan/place/hdp_placement.h"

#include <algorithm>
#include <string>

#include "overlord/base/check.h"
#include "overlord/base/fixed_point.h"
#include "overlord/plan/hybrid/hdp.h"
#include "overlord/plan/place/client_place_tree.h"

namespace overlord::plan {
namespace {

using model::HdpLayer;
using model::HdpPart;
using model::HdpShare;
using model::Segment;

HdpProblem problem_of(const model::JobSpec& spec, const model::Mesh& mesh) {
  const model::HdpSpec& hdp = spec.strategy.hdp;
  HdpProblem problem;
  problem.ranks = ClientPlaceTree(mesh).count_at(spec.strategy.axis);
  problem.stages = mesh.size("pp");
  problem.model = hdp.model;
  problem.offload = hdp.offload;
  problem.balance = hdp.balance.value_or(problem.stages > 1 ? HdpBalance::kPp : HdpBalance::kDp);
  problem.method = hdp.method;
  problem.powers_of_two = hdp.powers_of_two;
  problem.align = spec.align;
  problem.max_microbatches = hdp.max_microbatches;
  return problem;
}

// The longest context, a multiple of `align`, that all ranks together can hold.
uint32_t longest_context(const HdpProblem& problem, uint32_t most) {
  uint32_t low = 0;
  uint32_t high = most / problem.align;
  while (low < high) {
    const uint32_t middle = low + (high - low + 1) / 2;
    if (least_ranks(problem, middle * problem.align)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low * problem.align;
}

Status refuse(const std::string& what) { return invalid_argument("strategy.hybrid: " + what); }

// The slices of a layer, bin after bin, while they are made.
class SliceWriter {
 public:
  SliceWriter(HdpLayer* layer, const LossFinder* finder) : layer_(*layer), finder_(finder) {}

  // The share of one member of a group.
  void add_bin(uint32_t group_index, uint32_t member) {
    const HdpGroup& group = layer_.groups[group_index];
    const auto first = static_cast<uint32_t>(segments.size());
    uint64_t length = 0;
    for (const uint32_t sequence : group.sequences) {
      length += add_slice(sequence, static_cast<uint32_t>(group.ranks.size()), member);
    }
    const auto parts = static_cast<uint32_t>(segments.size()) - first;
    layer_.shares.push_back({group_index, member, first, parts});
    bin_ends.push_back(first + parts);
    capacities.push_back(static_cast<uint32_t>(std::max<uint64_t>(length, layer_.align)));
    bin_costs.push_back(group.cost_ns);
    spread_cost(group.cost_ns, first);
  }

  std::vector<Segment> segments;
  std::vector<int64_t> costs;  // of the segments
  std::vector<int64_t> bin_costs;
  std::vector<uint32_t> bin_ends;
  std::vector<uint32_t> capacities;

 private:
  // Tokens it takes of its row.
  uint64_t add_slice(uint32_t sequence, uint32_t members, uint32_t member) {
    const uint32_t length = layer_.sequences[sequence].count;
    if (members == 1) return add_part({sequence, 0, 0}, length);
    const HdpSlice slice = slice_of(length, members, member, layer_.align);
    const uint64_t low = add_part({sequence, member, slice.low.first}, slice.low.count);
    return low + add_part({sequence, 2 * members - 1 - member, slice.high.first}, slice.high.count);
  }

  uint64_t add_part(HdpPart part, uint32_t count) {
    if (count == 0) return 0;
    const Segment& whole = layer_.sequences[part.sequence];
    Segment segment = whole;
    segment.first = whole.first + part.offset;
    segment.count = count;
    if (part.offset + count < whole.count) segment.flags |= Segment::kContinues;
    segment.targets = targets_of_part(whole, segment, finder_);
    OVERLORD_CHECK(part.offset + count <= whole.count, "a slice lies in its sequence");
    segments.push_back(segment);
    layer_.parts.push_back(part);
    return round_up(count, layer_.align);
  }

  // A group's time, spread over what a member holds by tokens.
  void spread_cost(int64_t cost_ns, uint32_t first) {
    uint64_t tokens = 0;
    for (size_t i = first; i < segments.size(); ++i) tokens += segments[i].count;
    uint64_t before = 0;
    int64_t given = 0;
    for (size_t i = first; i < segments.size(); ++i) {
      before += segments[i].count;
      const auto until = static_cast<int64_t>(Int128{cost_ns} * before / tokens);
      costs.push_back(until - given);
      given = until;
    }
    OVERLORD_CHECK(tokens == 0 || given == cost_ns, "a group's time is spread over all of it");
  }

  HdpLayer& layer_;
  const LossFinder* finder_;
};

// Adds up what the plans of the substeps say.
struct Totals {
  std::vector<int64_t> rank_ns;
  int64_t makespan_ns = 0;
  int64_t bound_ns = 0;
  int64_t arrival_ns = 0;
  uint32_t limiting = kNoSequence;  // of the substep with the highest bound
  int64_t limiting_bound_ns = -1;
};

// Plans one substep and appends its groups; sequences [begin, end) of the layer are its own.
Status plan_substep(HdpProblem problem, uint32_t substep, uint32_t begin, uint32_t end,
                    HdpLayer* layer, Totals* totals) {
  OVERLORD_CHECK(begin <= end && end <= layer->sequences.size(),
                 "a substep has sequences of the step");
  std::vector<uint32_t> lengths;  // as they take room
  std::vector<uint32_t> targets;
  for (uint32_t i = begin; i < end; ++i) {
    const Segment& segment = layer->sequences[i];
    lengths.push_back(static_cast<uint32_t>(round_up(segment.count, problem.align)));
    targets.push_back(segment.targets);
  }
  problem.lengths = lengths;
  problem.targets = targets;
  OVERLORD_TRY(HdpPlan plan, plan_hdp(problem));
  problem.method = HdpMethod::kNaive;
  problem.max_microbatches = 0;
  OVERLORD_TRY(const HdpPlan arrival, plan_hdp(problem));
  std::vector<bool> busy(problem.ranks, false);
  for (HdpGroup& group : plan.groups) {
    group.substep = substep;
    group.start_ns += totals->makespan_ns;
    group.tokens = 0;
    for (uint32_t& sequence : group.sequences) {
      sequence += begin;
      group.tokens += layer->sequences[sequence].count;
    }
    for (const uint32_t rank : group.ranks) busy[rank] = true;
    layer->groups.push_back(std::move(group));
  }
  for (uint32_t rank = 0; rank < problem.ranks; ++rank) {
    if (busy[rank]) continue;
    HdpGroup idle;
    idle.ranks = {rank};
    idle.substep = substep;
    idle.start_ns = totals->makespan_ns;
    layer->groups.push_back(std::move(idle));
  }
  for (uint32_t rank = 0; rank < problem.ranks; ++rank) {
    totals->rank_ns[rank] += plan.rank_ns[rank];
  }
  totals->makespan_ns += plan.makespan_ns;
  totals->bound_ns += plan.lower_bound_ns;
  totals->arrival_ns += arrival.makespan_ns;
  if (plan.lower_bound_ns > totals->limiting_bound_ns) {
    totals->limiting_bound_ns = plan.lower_bound_ns;
    totals->limiting =
        plan.limiting_sequence == kNoSequence ? kNoSequence : plan.limiting_sequence + begin;
  }
  return {};
}

model::PlanReport report_of(const Totals& totals, const HdpLayer& layer, const DGraph& graph) {
  model::PlanReport report;
  const std::span<const int64_t> costs = graph.bin_costs();
  report.consumers = graph.shape().consumers;
  report.microbatches = graph.shape().microbatches;
  uint32_t longest = totals.limiting;
  for (uint32_t bin = 0; bin < costs.size(); ++bin) {
    report.total += costs[bin];
    report.microbatch_max = std::max(report.microbatch_max, costs[bin]);
  }
  report.microbatch_mean = costs.empty() ? 0 : report.total / static_cast<int64_t>(costs.size());
  const auto fullest = std::ranges::max_element(totals.rank_ns);
  report.limiting_consumer = static_cast<uint32_t>(fullest - totals.rank_ns.begin());
  report.consumer_max = totals.makespan_ns;
  report.consumer_min = *std::ranges::min_element(totals.rank_ns);
  report.lower_bound = totals.bound_ns;
  report.bound_by =
      totals.limiting == kNoSequence ? model::BoundBy::kMean : model::BoundBy::kLargest;
  int64_t heaviest = -1;
  for (uint32_t bin = 0; bin < costs.size(); ++bin) {
    const HdpGroup& group = layer.groups[layer.shares[bin].group];
    const bool limits =
        totals.limiting == kNoSequence
            ? graph.consumer_of(bin) == report.limiting_consumer
            : std::ranges::find(group.sequences, totals.limiting) != group.sequences.end();
    if (!limits || costs[bin] <= heaviest || group.sequences.empty()) continue;
    heaviest = costs[bin];
    report.limiting_bin = bin;
    if (totals.limiting != kNoSequence) continue;
    longest = *std::ranges::max_element(
        group.sequences, {}, [&](uint32_t sequence) { return layer.sequences[sequence].count; });
  }
  if (longest != kNoSequence) report.limiting_sample = layer.sequences[longest].id;
  report.limiting_sample_cost = std::max<int64_t>(heaviest, 0);
  report.step_ns = totals.makespan_ns;
  report.arrival_step_ns = totals.arrival_ns;
  report.even_step_ns = totals.bound_ns;
  return report;
}

}  // namespace

Status check_hdp_strategy(const model::JobSpec& spec, const model::Mesh& mesh,
                          const model::DeliverySpec& delivery) {
  const model::Strategy& strategy = spec.strategy;
  if (strategy.axis != "cp") {
    return refuse("slices are dealt to every context-parallel rank, got distribute axis '" +
                  strategy.axis + "'; allowed: cp, of any size, with dp around it");
  }
  if (strategy.group_size != 0) return refuse("all ranks share the work; leave group_size out");
  if (strategy.has_cost || strategy.balance != model::BalanceMethod::kArrival) {
    return refuse("its model says what sequences cost and it balances; leave cost and balance out");
  }
  if (strategy.order != model::OrderMethod::kKeep || strategy.virtual_stages > 1) {
    return refuse("groups have one order on all ranks; leave order out");
  }
  if (delivery.microbatch_size != 1) {
    return refuse(
        "a microbatch is one row as long as what it holds, got delivery.microbatch_size " +
        std::to_string(delivery.microbatch_size) + "; allowed: 1");
  }
  if (std::ranges::find(delivery.broadcast_axes, "cp") != delivery.broadcast_axes.end()) {
    return refuse("cp ranks see different samples and cannot be broadcast to; leave cp out");
  }
  HdpProblem problem = problem_of(spec, mesh);
  problem.max_microbatches = 0;
  const std::vector<uint32_t> longest = {spec.context};
  const Status model = plan_hdp(problem).status();  // of nothing: is the model one?
  if (!model.ok()) return model.with_context("strategy.hybrid");
  problem.lengths = longest;
  const Status fits = plan_hdp(problem).status();
  if (fits.ok()) return {};
  return refuse("a sequence of context = " + std::to_string(spec.context) +
                " tokens does not fit all " + std::to_string(problem.ranks) +
                " ranks of capacity " + std::to_string(problem.model.capacity) +
                " together; at most " + std::to_string(longest_context(problem, spec.context)) +
                " do; use more ranks, a larger capacity, or a shorter context (" + fits.message() +
                ")");
}

Result<HdpPlaced> place_hdp(const model::JobSpec& spec, const model::Mesh& mesh,
                            std::vector<Segment> segments, std::span<const uint32_t> bin_ends,
                            const LossFinder* finder) {
  const HdpProblem problem = problem_of(spec, mesh);
  auto layer = std::make_shared<HdpLayer>();
  layer->align = spec.align;
  layer->substeps = spec.substeps;
  layer->sequences = std::move(segments);
  Totals totals;
  totals.rank_ns.assign(problem.ranks, 0);
  const size_t each = bin_ends.size() / spec.substeps;
  for (uint32_t s = 0; s < spec.substeps; ++s) {
    const uint32_t begin = s == 0 ? 0 : bin_ends[s * each - 1];
    const Status planned =
        plan_substep(problem, s, begin, bin_ends[(s + 1) * each - 1], layer.get(), &totals);
    if (!planned.ok()) return planned.with_context("strategy.hybrid");
  }
  std::vector<std::vector<HdpShare>> own(problem.ranks);
  for (uint32_t g = 0; g < layer->groups.size(); ++g) {
    const std::vector<uint32_t>& ranks = layer->groups[g].ranks;
    for (uint32_t member = 0; member < ranks.size(); ++member) {
      own[ranks[member]].push_back({g, member, 0, 0});
    }
  }
  HdpPlaced placed;
  SliceWriter writer(layer.get(), finder);
  for (const std::vector<HdpShare>& shares : own) {
    placed.bucket_microbatches.push_back(static_cast<uint32_t>(shares.size()));
    for (const HdpShare& share : shares) writer.add_bin(share.group, share.member);
  }
  uint64_t tokens = 0;
  for (const Segment& sequence : layer->sequences) tokens += sequence.count;
  for (const Segment& slice : writer.segments) tokens -= slice.count;
  OVERLORD_CHECK(tokens == 0, "slices are the step, once");
  const uint32_t most = *std::ranges::max_element(placed.bucket_microbatches);
  placed.capacities = std::move(writer.capacities);
  placed.graph = std::make_shared<DGraph>(std::move(writer.segments), std::move(writer.bin_ends),
                                          GraphShape{problem.ranks, most, 1});
  placed.graph->set_costs(std::move(writer.costs), std::move(writer.bin_costs));
  uint32_t bin = 0;
  for (uint32_t consumer = 0; consumer < problem.ranks; ++consumer) {
    for (uint32_t m = 0; m < placed.bucket_microbatches[consumer]; ++m) {
      placed.graph->put(bin++, consumer, m, EdgeOp::kBalance);
    }
  }
  OVERLORD_CHECK(bin == placed.graph->bins(), "every slice has a seat");
  placed.report = report_of(totals, *layer, *placed.graph);
  placed.layer = std::move(layer);
  return placed;
}

}  // namespace overlord::plan
