#include "overlord/plan/pipeline/pipeline_order.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/plan/pipeline/pipeline_search.h"

namespace overlord::plan {
namespace {

using Order = std::vector<uint32_t>;

Order ascending_order(std::span<const int64_t> costs) {
  Order order(costs.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [costs](uint32_t a, uint32_t b) { return costs[a] < costs[b]; });
  return order;
}

// Of the ascending order every second one, counted from the largest, goes to the left half.
Order small_ends(const Order& ascending) {
  const size_t count = ascending.size();
  Order order;
  order.reserve(count);
  for (size_t i = (count + 1) % 2; i < count; i += 2) order.push_back(ascending[i]);
  for (size_t i = 2; i <= count; i += 2) order.push_back(ascending[count - i]);
  OVERLORD_CHECK(order.size() == count, "every microbatch has a place");
  return order;
}

Order simple_order(OrderMethod method, std::span<const int64_t> costs) {
  if (method == OrderMethod::kKeep) {
    Order order(costs.size());
    std::iota(order.begin(), order.end(), 0u);
    return order;
  }
  Order order = ascending_order(costs);
  if (method == OrderMethod::kDescending) std::reverse(order.begin(), order.end());
  if (method == OrderMethod::kSmallEnds) return small_ends(order);
  return order;
}

// What all pipelines of one step share.
class PipelineOrderer {
 public:
  explicit PipelineOrderer(const PipelineSchedule& schedule)
      : schedule_(schedule), bound_(schedule), ends_(size_t{schedule.runs()} + 1, 0) {}

  // Everything but searching; a search begins with the best simple order.
  Result<Ordered> begin(OrderMethod method, std::span<const int64_t> costs) {
    OVERLORD_TRY(const RunTimes times, schedule_.run_times(costs));
    Ordered out;
    out.lower_bound = bound_.of(costs);
    out.kept_makespan = makespan_of(simple_order(OrderMethod::kKeep, costs), times);
    if (method != OrderMethod::kSearch) {
      out.order = simple_order(method, costs);
      out.makespan = makespan_of(out.order, times);
      OVERLORD_CHECK(out.lower_bound <= out.makespan, "no order is better than its bound");
      return out;
    }
    for (const OrderMethod simple : {OrderMethod::kSmallEnds, OrderMethod::kAscending,
                                     OrderMethod::kDescending, OrderMethod::kKeep}) {
      Order order = simple_order(simple, costs);
      const int64_t makespan = makespan_of(order, times);
      if (!out.order.empty() && makespan >= out.makespan) continue;
      out.order = std::move(order);
      out.makespan = makespan;
    }
    return out;
  }

  void search(std::span<const int64_t> costs, SearchLimits limits, Ordered* ordered) const {
    limits.good_enough = std::max(limits.good_enough, ordered->lower_bound);
    auto times = schedule_.run_times(costs);
    OVERLORD_CHECK(times.ok(), "costs were good when the search began");
    PipelineSearch search(schedule_, *times, limits);
    const int64_t before = std::exchange(ordered->makespan, search.improve(&ordered->order));
    OVERLORD_CHECK(ordered->makespan <= before && ordered->lower_bound <= ordered->makespan,
                   "searching makes no order slower");
  }

 private:
  int64_t makespan_of(const Order& order, const RunTimes& times) {
    OVERLORD_CHECK(2 * order.size() == times.size(), "an order names every microbatch");
    RunTimes by_place;
    by_place.reserve(times.size());
    for (const uint32_t microbatch : order) {
      by_place.push_back(times[2 * microbatch]);
      by_place.push_back(times[2 * microbatch + 1]);
    }
    return schedule_.run(by_place, 0, ends_);
  }

  const PipelineSchedule& schedule_;
  MakespanBound bound_;
  std::vector<int64_t> ends_;
};

}  // namespace

Result<Ordered> order_microbatches(OrderMethod method, const PipelineShape& shape,
                                   std::span<const int64_t> costs, const SearchLimits& limits) {
  OVERLORD_TRY(OrderedStep step, order_step(method, shape, costs, 1, limits));
  return std::move(step.pipelines.front());
}

Result<OrderedStep> order_step(OrderMethod method, const PipelineShape& shape,
                               std::span<const int64_t> costs, uint32_t pipelines,
                               const SearchLimits& limits) {
  if (pipelines == 0 || costs.size() % pipelines != 0 || costs.size() / pipelines > UINT32_MAX) {
    return invalid_argument("costs: equally many for each of " + std::to_string(pipelines) +
                            " pipelines, got " + std::to_string(costs.size()));
  }
  const size_t microbatches = costs.size() / pipelines;
  OVERLORD_TRY(const PipelineSchedule schedule,
               PipelineSchedule::make(shape, static_cast<uint32_t>(microbatches)));
  PipelineOrderer orderer(schedule);
  OrderedStep step;
  for (size_t i = 0; i < pipelines; ++i) {
    OVERLORD_TRY(Ordered ordered,
                 orderer.begin(method, costs.subspan(i * microbatches, microbatches)));
    step.lower_bound = std::max(step.lower_bound, ordered.lower_bound);
    step.kept_step_time = std::max(step.kept_step_time, ordered.kept_makespan);
    step.pipelines.push_back(std::move(ordered));
  }
  // Search the pipeline that ends last, until that is one that was searched.
  const auto ends_earlier = [](const Ordered& a, const Ordered& b) {
    return a.makespan < b.makespan;
  };
  std::vector<bool> searched(pipelines, method != OrderMethod::kSearch);
  SearchLimits here = limits;
  for (;;) {
    const auto last = std::max_element(step.pipelines.begin(), step.pipelines.end(), ends_earlier);
    const auto index = static_cast<size_t>(last - step.pipelines.begin());
    step.step_time = last->makespan;
    if (searched[index]) break;
    here.good_enough = std::max(here.good_enough, step.lower_bound);
    orderer.search(costs.subspan(index * microbatches, microbatches), here, &*last);
    searched[index] = true;
    // Others need not be better than what this one could not beat.
    here.good_enough = std::max(here.good_enough, last->makespan);
  }
  return step;
}

}  // namespace overlord::plan
