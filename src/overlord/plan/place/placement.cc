#include "overlord/plan/place/placement.h"

#include <algorithm>
#include <numeric>

#include "overlord/base/check.h"
#include "overlord/base/fixed_point.h"
#include "overlord/plan/balance/balance_bound.h"
#include "overlord/plan/cost/cost.h"
#include "overlord/plan/pipeline/pipeline_order.h"
#include "overlord/plan/place/memory_limit.h"
#include "overlord/plan/place/plan_remedies.h"

namespace overlord::plan {
namespace {

struct Seat {
  uint32_t consumer = 0;
  uint32_t microbatch = 0;
};

// The arrival seat of bin `index` of a substep that begins at microbatch `first`.
Seat seat_in_turn(const GraphShape& shape, uint32_t index, uint32_t first) {
  OVERLORD_CHECK(shape.consumers > 0 && shape.microbatch_size > 0, "bins are dealt to somebody");
  const uint32_t width = shape.consumers * shape.microbatch_size;
  return {index % width / shape.microbatch_size, first + index / width};
}

uint32_t rounds_of(const GraphShape& shape, const DealShape& deal) {
  OVERLORD_CHECK(deal.substeps > 0 && shape.microbatches % deal.substeps == 0,
                 "substeps have equally many microbatches");
  return shape.microbatches / deal.substeps;
}

// Columns whose value i is that of sample from[i].
std::vector<model::MetaColumn> reordered(std::span<const model::MetaColumn> columns,
                                         std::span<const uint32_t> from) {
  std::vector<model::MetaColumn> out;
  for (const model::MetaColumn& column : columns) {
    out.push_back({column.name, {}});
    OVERLORD_CHECK(column.values.size() == from.size(), "samples change places and no more");
    for (const uint32_t i : from) out.back().values.push_back(column.values[i]);
  }
  return out;
}

PipelineShape pipeline_of(const model::Strategy& strategy, const DealShape& deal) {
  return {deal.stages, strategy.virtual_stages, strategy.backward_permille};
}

// Forward time on one stage of the microbatches of a substep, consumer after consumer.
std::vector<int64_t> forward_times(const model::Strategy& strategy, const DealShape& deal,
                                   const GraphShape& shape, std::span<const int64_t> costs,
                                   uint32_t substep) {
  const uint32_t rounds = rounds_of(shape, deal);
  std::vector<int64_t> times;
  times.reserve(size_t{shape.consumers} * rounds);
  for (uint32_t consumer = 0; consumer < shape.consumers; ++consumer) {
    for (uint32_t m = 0; m < rounds; ++m) {
      const int64_t cost = costs[size_t{consumer} * shape.microbatches + substep * rounds + m];
      times.push_back(static_cast<int64_t>(
          Int128{cost} * 1000 / (Int128{deal.stages} * (1000 + strategy.backward_permille))));
    }
  }
  return times;
}

// Predicted time of the step: the slowest consumer's pipeline, substep after substep.
Result<int64_t> step_time(const model::Strategy& strategy, const DealShape& deal,
                          const GraphShape& shape, std::span<const int64_t> costs) {
  int64_t time = 0;
  for (uint32_t substep = 0; substep < deal.substeps; ++substep) {
    const auto forward = forward_times(strategy, deal, shape, costs, substep);
    OVERLORD_TRY(const OrderedStep step,
                 order_step(model::OrderMethod::kKeep, pipeline_of(strategy, deal), forward,
                            shape.consumers));
    time += step.step_time;
  }
  return time;
}

std::vector<int64_t> arrival_costs(const DealShape& deal, const DGraph& graph) {
  const GraphShape& shape = graph.shape();
  std::vector<int64_t> costs(size_t{shape.consumers} * shape.microbatches, 0);
  const uint32_t per_substep = graph.bins() / deal.substeps;
  for (uint32_t bin = 0; bin < graph.bins(); ++bin) {
    const uint32_t substep = bin / per_substep;
    const Seat seat = seat_in_turn(shape, bin % per_substep, substep * rounds_of(shape, deal));
    costs[size_t{seat.consumer} * shape.microbatches + seat.microbatch] += graph.bin_costs()[bin];
  }
  return costs;
}

// No placement of these atoms makes the fullest consumer cheaper; `least` of them on every one.
LimitedStep find_bound(std::span<const int64_t> costs, uint32_t least, model::PlanReport* report) {
  std::vector<uint32_t> bins(costs.size());
  std::iota(bins.begin(), bins.end(), 0);
  std::sort(bins.begin(), bins.end(), [&](uint32_t a, uint32_t b) {
    return costs[a] != costs[b] ? costs[a] > costs[b] : a < b;
  });
  std::vector<int64_t> falling(bins.size());
  for (size_t i = 0; i < bins.size(); ++i) falling[i] = costs[bins[i]];
  const LoadBound bound = BoundFinder().find(falling, bins, report->consumers, {}, least);
  report->lower_bound = bound.load;
  report->bound_by = bound_by(bound.by);
  return {std::move(falling), 0, 0, report->consumers, least};
}

// What the bound would be without the sample that limits it.
void find_remedies(const DGraph& graph, bool whole, LimitedStep step, model::PlanReport* report) {
  report->split_bound = report->delay_bound = report->lower_bound;
  if (report->limiting_sample_cost < 0) return;  // nothing but empty bins
  step.limiting = whole ? graph.bin_costs()[report->limiting_bin] : report->limiting_sample_cost;
  step.sample = report->limiting_sample_cost;
  report->split_bound = bound_when_split(step);
  report->delay_bound = bound_when_delayed(step);
}

// Totals of the consumers' microbatches, whose costs lie consumer after consumer.
model::PlanReport loads_of(const GraphShape& shape, std::span<const int64_t> costs) {
  OVERLORD_CHECK(costs.size() == size_t{shape.consumers} * shape.microbatches,
                 "a cost for every microbatch");
  model::PlanReport report;
  report.consumers = shape.consumers;
  report.microbatches = shape.microbatches;
  std::vector<int64_t> loads(shape.consumers, 0);
  for (size_t i = 0; i < costs.size(); ++i) {
    loads[i / shape.microbatches] += costs[i];
    report.total += costs[i];
    report.microbatch_max = std::max(report.microbatch_max, costs[i]);
  }
  report.microbatch_mean = report.total / static_cast<int64_t>(costs.size());
  const auto fullest = std::max_element(loads.begin(), loads.end());
  report.limiting_consumer = static_cast<uint32_t>(fullest - loads.begin());
  report.consumer_max = *fullest;
  report.consumer_min = *std::min_element(loads.begin(), loads.end());
  return report;
}

// The heaviest bin of the fullest consumer.
void find_limiting_bin(const DGraph& graph, std::span<const int64_t> costs,
                       model::PlanReport* report) {
  int64_t heaviest = -1;
  for (uint32_t bin = 0; bin < graph.bins(); ++bin) {
    if (graph.consumer_of(bin) != report->limiting_consumer || costs[bin] <= heaviest) continue;
    heaviest = costs[bin];
    report->limiting_bin = bin;
  }
}

// The heaviest sample of that bin.
void find_limit(const DGraph& graph, model::PlanReport* report) {
  find_limiting_bin(graph, graph.bin_costs(), report);
  const uint32_t bin = report->limiting_bin;
  report->limiting_sample_cost = -1;
  for (uint32_t i = bin == 0 ? 0 : graph.bin_ends()[bin - 1]; i < graph.bin_ends()[bin]; ++i) {
    if (graph.sample_costs()[i] <= report->limiting_sample_cost) continue;
    report->limiting_sample_cost = graph.sample_costs()[i];
    report->limiting_sample = graph.segments()[i].id;
  }
}

Status find_memory(const model::Strategy& strategy, const DGraph& graph,
                   model::PlanReport* report) {
  if (strategy.memory_limit == 0) return {};
  OVERLORD_TRY(const std::vector<int64_t> bytes, bin_bytes(strategy.cost, graph));
  report->memory_max = largest_microbatch(bytes, graph).bytes;
  report->arrival_for_memory = strategy.balance != model::BalanceMethod::kArrival &&
                               std::any_of(graph.edges().begin(), graph.edges().end(),
                                           [](const Edge& e) { return e.op == EdgeOp::kDeal; });
  return {};
}

}  // namespace

struct Placer::Part {
  std::vector<uint32_t> bins;  // ascending
  uint32_t first_consumer = 0;
  uint32_t consumers = 1;
  uint32_t first_microbatch = 0;
  uint32_t rounds = 1;  // microbatches of each consumer
  uint32_t size = 1;    // bins of a microbatch
};

void deal_in_turn(const DealShape& deal, DGraph* graph) {
  OVERLORD_CHECK(graph->bins() % deal.substeps == 0, "substeps have equally many bins");
  const uint32_t per_substep = graph->bins() / deal.substeps;
  for (uint32_t bin = 0; bin < graph->bins(); ++bin) {
    const uint32_t first = bin / per_substep * rounds_of(graph->shape(), deal);
    const Seat seat = seat_in_turn(graph->shape(), bin % per_substep, first);
    graph->put(bin, seat.consumer, seat.microbatch, EdgeOp::kDeal);
  }
}

Status Placer::place(const model::Strategy& strategy, const DealShape& deal, DGraph* graph) {
  if (strategy.has_cost && graph->bin_costs().empty()) {  // a user's function may have set them
    OVERLORD_TRY(std::vector<int64_t> samples,
                 segment_costs(strategy.cost, graph->segments(), graph->columns()));
    OVERLORD_TRY(std::vector<int64_t> bins, bin_costs(strategy.cost, samples, graph->bin_ends()));
    graph->set_costs(std::move(samples), std::move(bins));
  }
  further_.clear();
  for (const model::CostModel& cost : strategy.further_costs) {
    OVERLORD_TRY(const std::vector<int64_t> samples,
                 segment_costs(cost, graph->segments(), graph->columns()));
    OVERLORD_TRY(further_.emplace_back(), bin_costs(cost, samples, graph->bin_ends()));
  }
  bytes_.clear();
  if (strategy.memory_limit > 0) {
    OVERLORD_TRY(bytes_, bin_bytes(strategy.cost, *graph));
  }
  if (!strategy.has_cost || strategy.balance == model::BalanceMethod::kArrival) {
    deal_in_turn(deal, graph);
  } else {
    OVERLORD_RETURN_IF_ERROR(balance(strategy, deal, graph));
  }
  OVERLORD_RETURN_IF_ERROR(keep_memory(strategy, deal, graph));
  return strategy.has_cost ? order(strategy, deal, graph) : Status();
}

Status Placer::balance(const model::Strategy& strategy, const DealShape& deal, DGraph* graph) {
  const GraphShape& shape = graph->shape();
  const uint32_t group = strategy.group_size == 0 ? shape.consumers : strategy.group_size;
  const uint32_t per_substep = graph->bins() / deal.substeps;
  for (uint32_t substep = 0; substep < deal.substeps; ++substep) {
    const uint32_t first = substep * rounds_of(shape, deal);
    std::vector<Part> parts((shape.consumers + group - 1) / group);
    for (uint32_t p = 0; p < parts.size(); ++p) {
      const uint32_t width = std::min(group, shape.consumers - p * group);
      parts[p] = {{}, p * group, width, first, rounds_of(shape, deal), shape.microbatch_size};
    }
    for (uint32_t i = 0; i < per_substep; ++i) {
      const uint32_t consumer = seat_in_turn(shape, i, first).consumer;
      parts[consumer / group].bins.push_back(substep * per_substep + i);
    }
    for (const Part& part : parts) {
      OVERLORD_RETURN_IF_ERROR(balance_part(strategy, part, graph));
    }
  }
  return {};
}

// Where balanced microbatches take more than they may, the arrival order is the fall-back: it needs
// no luck to be right twice.
Status Placer::keep_memory(const model::Strategy& strategy, const DealShape& deal, DGraph* graph) {
  if (bytes_.empty() || largest_microbatch(bytes_, *graph).bytes <= strategy.memory_limit) {
    return {};
  }
  OVERLORD_CHECK(bytes_.size() == graph->bins(), "bytes of every bin");
  deal_in_turn(deal, graph);
  if (largest_microbatch(bytes_, *graph).bytes <= strategy.memory_limit) return {};
  return over_memory(strategy, bytes_, *graph);
}

Status Placer::place_as_told(const model::Strategy& strategy, const DealShape& deal,
                             std::span<const int64_t> seats, DGraph* graph) {
  further_.clear();
  if (strategy.has_cost && graph->bin_costs().empty()) {
    OVERLORD_TRY(std::vector<int64_t> samples,
                 segment_costs(strategy.cost, graph->segments(), graph->columns()));
    OVERLORD_TRY(std::vector<int64_t> bins, bin_costs(strategy.cost, samples, graph->bin_ends()));
    graph->set_costs(std::move(samples), std::move(bins));
  }
  OVERLORD_CHECK(seats.size() == graph->bins(), "a seat for every bin");
  for (uint32_t bin = 0; bin < graph->bins(); ++bin) {
    const auto seat = static_cast<uint32_t>(seats[bin]);
    graph->put(bin, seat / graph->shape().microbatches, seat % graph->shape().microbatches,
               EdgeOp::kUser);
  }
  return strategy.balance_by.declared() ? order(strategy, deal, graph) : Status();
}

Result<std::shared_ptr<DGraph>> Placer::place_samples(const model::Strategy& strategy,
                                                      const DealShape& deal, const CutShape& cut,
                                                      std::span<const model::Segment> segments,
                                                      std::span<const int64_t> costs,
                                                      std::span<const uint32_t> bin_ends,
                                                      std::span<const model::MetaColumn> columns,
                                                      std::vector<uint32_t>* capacities) {
  further_.clear();
  OVERLORD_TRY(CutStep step,
               cut_samples(strategy.balance, cut, segments, costs, bin_ends, &balancer_));
  OVERLORD_TRY(std::vector<int64_t> bins, bin_costs(strategy.cost, step.costs, step.bin_ends));
  auto graph = std::make_shared<DGraph>(std::move(step.segments), std::move(step.bin_ends),
                                        GraphShape{cut.consumers, step.microbatches, 1});
  graph->set_costs(std::move(step.costs), std::move(bins));
  graph->set_columns(reordered(columns, step.from));
  for (uint32_t bin = 0; bin < graph->bins(); ++bin) {
    graph->put(bin, bin / step.microbatches, bin % step.microbatches, EdgeOp::kBalance);
  }
  OVERLORD_CHECK(step.capacities.size() == graph->bins(), "a length for every microbatch");
  *capacities = std::move(step.capacities);
  OVERLORD_RETURN_IF_ERROR(order(strategy, deal, graph.get()));
  return graph;
}

Status Placer::balance_part(const model::Strategy& strategy, const Part& part, DGraph* graph) {
  switch (strategy.level) {
    case model::BalanceLevel::kBucket:
      return by_bucket(strategy, part, graph);
    case model::BalanceLevel::kBin:
      return by_bin(strategy, part, graph);
    case model::BalanceLevel::kInterleaved:
      return interleaved(strategy, part, graph);
  }
  return {};
}

Placer::Kinds Placer::kinds_of(std::span<const uint32_t> bins, const DGraph& graph) const {
  Kinds kinds(1 + further_.size());
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    const std::span<const int64_t> costs =
        kind == 0 ? graph.bin_costs() : std::span<const int64_t>(further_[kind - 1]);
    kinds[kind].reserve(bins.size());
    for (const uint32_t bin : bins) kinds[kind].push_back(costs[bin]);
  }
  return kinds;
}

// Every bin of the answer holds `most` atoms or fewer, and none is left over.
Result<std::vector<uint32_t>> Placer::run(model::BalanceMethod method, const Kinds& kinds,
                                          uint32_t bins, uint32_t most) {
  if (kinds.size() > 1) {
    VectorProblem problem;
    const std::vector<std::span<const int64_t>> costs(kinds.begin(), kinds.end());
    problem.costs = costs;
    problem.bins = bins;
    const auto atoms = static_cast<uint32_t>(kinds[0].size());
    problem.count_limit = std::min(most, (atoms + bins - 1) / bins);
    OVERLORD_TRY(VectorBalanced balanced, vector_balancer_.vector_lpt(problem));
    OVERLORD_CHECK(balanced.left.empty(), "there is a seat for every bin");
    return std::move(balanced.bin_of);
  }
  BalanceProblem problem;
  problem.costs = kinds[0];
  problem.bins = bins;
  problem.count_limit = most;
  problem.equal_count = true;  // shapes are fixed: every consumer runs as many
  OVERLORD_TRY(Balanced balanced, balancer_.run(method, problem));
  OVERLORD_CHECK(balanced.left.empty(), "there is a seat for every bin");
  return std::move(balanced.bin_of);
}

Result<std::vector<uint32_t>> Placer::run_limited(const model::Strategy& strategy,
                                                  std::span<const uint32_t> bins,
                                                  const Kinds& kinds, uint32_t microbatches,
                                                  uint32_t most) {
  if (bytes_.empty()) return run(strategy.balance, kinds, microbatches, most);
  std::vector<int64_t> sizes;
  for (const uint32_t bin : bins) sizes.push_back(bytes_[bin]);
  BalanceProblem problem;
  problem.costs = kinds[0];
  problem.sizes = sizes;
  problem.bins = microbatches;
  problem.size_limit = strategy.memory_limit;
  problem.count_limit = most;
  problem.equal_count = true;
  OVERLORD_TRY(Balanced balanced, balancer_.run(strategy.balance, problem));
  if (balanced.left.empty()) return std::move(balanced.bin_of);
  return run(strategy.balance, kinds, microbatches, most);  // keep_memory() has the last word
}

Status Placer::by_bucket(const model::Strategy& strategy, const Part& part, DGraph* graph) {
  OVERLORD_TRY(
      const std::vector<uint32_t> consumer_of,
      run(strategy.balance, kinds_of(part.bins, *graph), part.consumers, part.rounds * part.size));
  std::vector<uint32_t> filled(part.consumers, 0);
  for (size_t i = 0; i < part.bins.size(); ++i) {
    const uint32_t consumer = consumer_of[i];
    OVERLORD_CHECK(filled[consumer] < part.rounds * part.size, "a consumer has room for its bins");
    graph->put(part.bins[i], part.first_consumer + consumer,
               part.first_microbatch + filled[consumer]++ / part.size, EdgeOp::kBalance);
  }
  return {};
}

Status Placer::by_bin(const model::Strategy& strategy, const Part& part, DGraph* graph) {
  std::vector<std::vector<uint32_t>> own(part.consumers);
  for (size_t i = 0; i < part.bins.size(); ++i) {
    own[i % (size_t{part.consumers} * part.size) / part.size].push_back(part.bins[i]);
  }
  for (uint32_t consumer = 0; consumer < part.consumers; ++consumer) {
    OVERLORD_TRY(const std::vector<uint32_t> microbatch_of,
                 run_limited(strategy, own[consumer], kinds_of(own[consumer], *graph), part.rounds,
                             part.size));
    for (size_t i = 0; i < own[consumer].size(); ++i) {
      graph->put(own[consumer][i], part.first_consumer + consumer,
                 part.first_microbatch + microbatch_of[i], EdgeOp::kBalance);
    }
  }
  return {};
}

// First even microbatches out of all bins, then even consumers out of all microbatches.
Status Placer::interleaved(const model::Strategy& strategy, const Part& part, DGraph* graph) {
  const Kinds costs = kinds_of(part.bins, *graph);
  const uint32_t groups = part.consumers * part.rounds;
  std::vector<uint32_t> group_of(part.bins.size());
  if (part.size == 1) {
    std::iota(group_of.begin(), group_of.end(), 0);
  } else {
    OVERLORD_TRY(group_of, run_limited(strategy, part.bins, costs, groups, part.size));
  }
  Kinds group_costs(costs.size(), std::vector<int64_t>(groups, 0));
  for (size_t kind = 0; kind < costs.size(); ++kind) {
    for (size_t i = 0; i < group_of.size(); ++i) group_costs[kind][group_of[i]] += costs[kind][i];
  }
  OVERLORD_TRY(const std::vector<uint32_t> consumer_of,
               run(strategy.balance, group_costs, part.consumers, part.rounds));
  std::vector<uint32_t> microbatch_of(groups);
  std::vector<uint32_t> filled(part.consumers, 0);
  for (uint32_t group = 0; group < groups; ++group) {
    microbatch_of[group] = filled[consumer_of[group]]++;
    OVERLORD_CHECK(microbatch_of[group] < part.rounds, "consumers run equally many microbatches");
  }
  for (size_t i = 0; i < part.bins.size(); ++i) {
    const uint32_t group = group_of[i];
    graph->put(part.bins[i], part.first_consumer + consumer_of[group],
               part.first_microbatch + microbatch_of[group], EdgeOp::kBalance);
  }
  return {};
}

Status Placer::order(const model::Strategy& strategy, const DealShape& deal, DGraph* graph) {
  if (strategy.order == model::OrderMethod::kKeep || deal.stages == 1) return {};
  const GraphShape& shape = graph->shape();
  const std::vector<int64_t> costs = graph->microbatch_costs();
  const uint32_t rounds = rounds_of(shape, deal);
  std::vector<uint32_t> to(costs.size());
  for (uint32_t substep = 0; substep < deal.substeps; ++substep) {
    const auto forward = forward_times(strategy, deal, shape, costs, substep);
    OVERLORD_TRY(const OrderedStep ordered,
                 order_step(strategy.order, pipeline_of(strategy, deal), forward, shape.consumers));
    for (uint32_t consumer = 0; consumer < shape.consumers; ++consumer) {
      const uint32_t first = consumer * shape.microbatches + substep * rounds;
      const std::vector<uint32_t>& order = ordered.pipelines[consumer].order;
      OVERLORD_CHECK(order.size() == rounds, "an order names every microbatch");
      for (uint32_t i = 0; i < rounds; ++i) to[first + order[i]] = substep * rounds + i;
    }
  }
  graph->renumber(to);
  return {};
}

Result<model::PlanReport> Placer::report(const model::Strategy& strategy, const DealShape& deal,
                                         const DGraph& graph) {
  const GraphShape& shape = graph.shape();
  const std::vector<int64_t> costs = graph.microbatch_costs();
  model::PlanReport report = loads_of(shape, costs);
  find_limit(graph, &report);
  const bool whole = strategy.atoms == model::Atoms::kSequences;
  // Balancers give consumers equally many sequences; a user's function need not.
  const uint32_t least = whole && !strategy.has_own_places() ? graph.bins() / report.consumers : 0;
  const LimitedStep step =
      find_bound(whole ? graph.bin_costs() : graph.sample_costs(), least, &report);
  find_remedies(graph, whole, step, &report);
  OVERLORD_TRY(report.step_ns, step_time(strategy, deal, shape, costs));
  OVERLORD_TRY(report.arrival_step_ns,
               step_time(strategy, deal, shape, arrival_costs(deal, graph)));
  const std::vector<int64_t> even(costs.size(), report.microbatch_mean);
  OVERLORD_TRY(report.even_step_ns, step_time(strategy, deal, shape, even));
  const GraphShape finer{1, 2 * shape.microbatches, shape.microbatch_size};  // all are alike
  const std::vector<int64_t> halves(finer.microbatches, report.microbatch_mean / 2);
  OVERLORD_TRY(report.halved_step_ns, step_time(strategy, deal, finer, halves));
  OVERLORD_RETURN_IF_ERROR(find_memory(strategy, graph, &report));
  return report;
}

std::vector<model::PlanReport> Placer::further_reports(const DGraph& graph) const {
  const GraphShape& shape = graph.shape();
  std::vector<model::PlanReport> reports;
  for (const std::vector<int64_t>& bins : further_) {
    std::vector<int64_t> costs(size_t{shape.consumers} * shape.microbatches, 0);
    for (uint32_t bin = 0; bin < graph.bins(); ++bin) {
      costs[size_t{graph.consumer_of(bin)} * shape.microbatches + graph.microbatch_of(bin)] +=
          bins[bin];
    }
    model::PlanReport& report = reports.emplace_back(loads_of(shape, costs));
    find_bound(bins, graph.bins() / report.consumers, &report);
    find_limiting_bin(graph, bins, &report);
    report.step_ns = report.consumer_max;
    report.even_step_ns = report.total / report.consumers;
  }
  return reports;
}

}  // namespace overlord::plan
