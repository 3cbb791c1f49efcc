// Plans as columns for people and tools: one row per segment, the report, and the graph's edges.
#include "plan_tables.h"

#include <nanobind/stl/string.h>

#include <functional>
#include <vector>

#include "owned_array.h"

namespace nb = nanobind;

namespace overlord::python {
namespace {

// One value per segment of the layer, with the bin it lies in.
nb::object per_segment(const model::Layer& layer,
                       const std::function<int64_t(const model::Segment&, uint32_t bin)>& value) {
  std::vector<int64_t> values;
  values.reserve(layer.segments.size());
  for (uint32_t bin = 0; bin < layer.bin_ends.size(); ++bin) {
    for (uint32_t s = layer.bin_begin(bin); s < layer.bin_ends[bin]; ++s) {
      values.push_back(value(layer.segments[s], bin));
    }
  }
  return owned_array(std::move(values));
}

const char* bound_name(model::BoundBy bound) {
  switch (bound) {
    case model::BoundBy::kMean:
      return "mean";
    case model::BoundBy::kLargest:
      return "largest";
    case model::BoundBy::kPigeonhole:
      return "pigeonhole";
  }
  return "unknown";
}

const char* op_name(plan::EdgeOp op) {
  switch (op) {
    case plan::EdgeOp::kPack:
      return "pack";
    case plan::EdgeOp::kDeal:
      return "deal";
    case plan::EdgeOp::kBalance:
      return "balance";
    case plan::EdgeOp::kOrder:
      return "order";
    case plan::EdgeOp::kDistribute:
      return "distribute";
    case plan::EdgeOp::kUser:
      return "user";
  }
  return "unknown";
}

}  // namespace

nb::dict plan_columns(const model::Plan& plan) {
  const model::Layer& layer = plan.layers.front();
  using model::Segment;
  nb::dict out;
  out["source"] = per_segment(layer, [](const Segment& s, uint32_t) { return s.id.source; });
  out["pass"] = per_segment(layer, [](const Segment& s, uint32_t) { return s.id.pass; });
  out["position"] = per_segment(
      layer, [](const Segment& s, uint32_t) { return static_cast<int64_t>(s.id.position); });
  out["first"] = per_segment(layer, [](const Segment& s, uint32_t) { return s.first; });
  out["count"] = per_segment(layer, [](const Segment& s, uint32_t) { return s.count; });
  out["targets"] = per_segment(layer, [](const Segment& s, uint32_t) { return s.targets; });
  out["bin"] = per_segment(layer, [](const Segment&, uint32_t bin) { return bin; });
  const auto& places = layer.placements;
  out["bucket"] =
      per_segment(layer, [&](const Segment&, uint32_t bin) { return places[bin].bucket; });
  out["microbatch"] =
      per_segment(layer, [&](const Segment&, uint32_t bin) { return places[bin].microbatch; });
  out["slot"] = per_segment(layer, [&](const Segment&, uint32_t bin) { return places[bin].slot; });
  return out;
}

nb::object plan_report(const model::Plan& plan) {
  const model::PlanReport* report = plan.layers.front().report.get();
  if (report == nullptr) return nb::none();
  nb::dict out;
  out["consumers"] = report->consumers;
  out["microbatches"] = report->microbatches;
  out["total_ns"] = report->total;
  out["consumer_max_ns"] = report->consumer_max;
  out["consumer_min_ns"] = report->consumer_min;
  out["lower_bound_ns"] = report->lower_bound;
  out["bound_by"] = bound_name(report->bound_by);
  out["microbatch_max_ns"] = report->microbatch_max;
  out["microbatch_mean_ns"] = report->microbatch_mean;
  out["limiting_consumer"] = report->limiting_consumer;
  out["limiting_bin"] = report->limiting_bin;
  nb::dict sample;
  sample["source"] = report->limiting_sample.source;
  sample["pass"] = report->limiting_sample.pass;
  sample["position"] = report->limiting_sample.position;
  sample["cost_ns"] = report->limiting_sample_cost;
  out["limiting_sample"] = sample;
  out["step_ns"] = report->step_ns;
  out["arrival_step_ns"] = report->arrival_step_ns;
  out["even_step_ns"] = report->even_step_ns;
  return out;
}

nb::object graph_table(const plan::DGraph* graph) {
  if (graph == nullptr) return nb::none();
  std::vector<uint32_t> from, to;
  std::vector<uint8_t> ops;
  for (const plan::Edge& edge : graph->edges()) {
    from.push_back(edge.from);
    to.push_back(edge.to);
    ops.push_back(static_cast<uint8_t>(edge.op));
  }
  nb::dict out;
  out["samples"] = graph->samples();
  out["bins"] = graph->bins();
  out["consumers"] = graph->shape().consumers;
  out["microbatches"] = graph->shape().microbatches;
  out["from"] = owned_array(std::move(from));
  out["to"] = owned_array(std::move(to));
  out["op"] = owned_array(std::move(ops));
  nb::list names;
  for (const auto op : {plan::EdgeOp::kPack, plan::EdgeOp::kDeal, plan::EdgeOp::kBalance,
                        plan::EdgeOp::kOrder, plan::EdgeOp::kDistribute, plan::EdgeOp::kUser}) {
    names.append(op_name(op));
  }
  out["op_names"] = names;
  const auto copied = [](std::span<const int64_t> values) {
    return owned_array(std::vector<int64_t>(values.begin(), values.end()));
  };
  out["sample_costs"] = copied(graph->sample_costs());
  out["bin_costs"] = copied(graph->bin_costs());
  nb::dict columns;
  for (const model::MetaColumn& column : graph->columns()) {
    columns[nb::cast(column.name)] = owned_array(column.values);
  }
  out["columns"] = columns;
  return out;
}

}  // namespace overlord::python
