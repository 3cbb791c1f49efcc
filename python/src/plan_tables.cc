// Plans as columns for people and tools: one row per segment, the report, and the graph's edges.
#include "plan_tables.h"

#include <nanobind/stl/string.h>

#include <functional>
#include <vector>

#include "errors.h"
#include "overlord/base/enum_names.h"
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

nb::dict layer_columns(const model::Layer& layer) {
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

nb::dict report_dict(const model::PlanReport* report) {
  nb::dict out;
  out["consumers"] = report->consumers;
  out["microbatches"] = report->microbatches;
  out["total_ns"] = report->total;
  out["consumer_max_ns"] = report->consumer_max;
  out["consumer_min_ns"] = report->consumer_min;
  out["lower_bound_ns"] = report->lower_bound;
  out["bound_by"] = enum_name(report->bound_by);
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
  out["halved_step_ns"] = report->halved_step_ns;
  out["split_bound_ns"] = report->split_bound;
  out["delay_bound_ns"] = report->delay_bound;
  out["memory_max_bytes"] = report->memory_max;
  out["arrival_for_memory"] = report->arrival_for_memory;
  return out;
}

// Per microbatch: [pairs, 3] of encoder, backbone, bytes; and the permutation with its inverse.
nb::list exchange_list(const model::EncoderPlan& encoder) {
  nb::list out;
  for (const model::Exchange& exchange : encoder.exchanges) {
    std::vector<int64_t> from, to, bytes;
    for (const model::PairBytes& pair : exchange.pairs) {
      from.push_back(pair.encoder);
      to.push_back(pair.backbone);
      bytes.push_back(pair.bytes);
    }
    nb::dict row;
    row["sent"] = owned_array(exchange.sent);
    row["received"] = owned_array(exchange.received);
    row["permutation"] = owned_array(exchange.permutation);
    row["inverse"] = owned_array(exchange.inverse);
    row["pair_encoder"] = owned_array(std::move(from));
    row["pair_backbone"] = owned_array(std::move(to));
    row["pair_bytes"] = owned_array(std::move(bytes));
    out.append(row);
  }
  return out;
}

}  // namespace

nb::dict plan_columns(const model::Plan& plan) { return layer_columns(plan.layers.front()); }

nb::object plan_report(const model::Plan& plan) {
  const model::PlanReport* report = plan.layers.front().report.get();
  if (report == nullptr) return nb::none();
  return report_dict(report);
}

nb::list further_reports(const model::Plan& plan) {
  nb::list out;
  for (const model::PlanReport& report : plan.layers.front().further_reports) {
    out.append(report_dict(&report));
  }
  return out;
}

nb::object encoder_table(const model::Plan& plan) {
  const model::Layer* layer = plan.encoder();
  if (layer == nullptr) return nb::none();
  const model::EncoderPlan& encoder = *layer->encoder;
  nb::dict out;
  out["module"] = nb::str(layer->module.c_str());
  out["axis"] = nb::str(layer->axis.c_str());
  out["columns"] = layer_columns(*layer);
  out["report"] = report_dict(layer->report.get());
  out["backbone_of"] = owned_array(encoder.backbone_of);
  out["backbone_segment"] = owned_array(encoder.backbone_segment);
  nb::list dummies;
  for (const model::Dummy& dummy : encoder.dummies) {
    dummies.append(nb::make_tuple(dummy.encoder, dummy.microbatch));
  }
  out["dummies"] = dummies;
  out["bytes_per_unit"] = encoder.bytes_per_unit;
  out["group"] = owned_array(encoder.table->group);
  std::vector<Rank> first_runners;  // by encoder
  for (const std::vector<Rank>& runners : encoder.table->runners) {
    first_runners.push_back(runners.front());
  }
  out["runners"] = owned_array(std::move(first_runners));
  out["exchanges"] = exchange_list(encoder);
  return out;
}

nb::object graph_samples(const plan::DGraph& graph, const model::Plan& plan,
                         const plan::SampleFilter& filter) {
  const auto sub = unwrap(plan::filter_graph(graph, plan.layers.front().segments, filter));
  return owned_array(std::vector<uint32_t>(sub.samples().begin(), sub.samples().end()));
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
  for (size_t op = 0; op < kEnumerators<plan::EdgeOp>; ++op) {
    names.append(enum_name(static_cast<plan::EdgeOp>(op)));
  }
  out["op_names"] = names;
  const auto copied = [](std::span<const int64_t> values) {
    return owned_array(std::vector<int64_t>(values.begin(), values.end()));
  };
  out["sample_costs"] = copied(graph->sample_costs());
  out["bin_costs"] = copied(graph->bin_costs());
  out["encoder"] = graph_table(graph->encoder());
  nb::dict columns;
  for (const model::MetaColumn& column : graph->columns()) {
    columns[nb::cast(column.name)] = owned_array(column.values);
  }
  out["columns"] = columns;
  return out;
}

}  // namespace overlord::python
