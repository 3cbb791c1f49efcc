// Binds model/plan.h for inspection.
#include "overlord/model/plan.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>

#include "bindings.h"
#include "hdp_tables.h"
#include "overlord/base/enum_names.h"
#include "overlord/plan/mix/mixing.h"
#include "plan_tables.h"

namespace nb = nanobind;

namespace overlord::python {
namespace {

using model::Plan;

using SegmentRow = std::tuple<uint32_t, uint32_t, uint64_t, uint32_t, uint32_t, uint32_t, uint32_t>;

std::vector<std::vector<SegmentRow>> bins_of(const Plan& plan) {
  const model::Layer& layer = plan.layers.front();
  std::vector<std::vector<SegmentRow>> bins(layer.bin_ends.size());
  for (uint32_t bin = 0; bin < bins.size(); ++bin) {
    for (uint32_t s = layer.bin_begin(bin); s < layer.bin_ends[bin]; ++s) {
      const model::Segment& segment = layer.segments[s];
      bins[bin].emplace_back(segment.id.source, segment.id.pass, segment.id.position, segment.first,
                             segment.count, segment.targets, segment.flags);
    }
  }
  return bins;
}

std::vector<std::tuple<uint32_t, uint32_t, uint32_t>> placement_of(const Plan& plan) {
  std::vector<std::tuple<uint32_t, uint32_t, uint32_t>> out;
  for (const model::Placement& place : plan.layers.front().placements) {
    out.emplace_back(place.bucket, place.microbatch, place.slot);
  }
  return out;
}

nb::list views_of(const Plan& plan) {
  nb::list out;
  for (const model::ClientView& view : plan.layers.front().views->by_rank) {
    nb::dict row;
    row["bucket"] = view.bucket;
    row["share"] = enum_name(view.share);
    row["fields"] = view.fields;
    row["slice"] = view.slice;
    row["slices"] = view.slices;
    out.append(row);
  }
  return out;
}

std::vector<double> debts_of(const Plan& plan) {
  std::vector<double> debts;
  for (const model::SourceCursor& cursor : plan.state_after->cursors) {
    debts.push_back(static_cast<double>(cursor.debt) / static_cast<double>(plan::kDebtOne));
  }
  return debts;
}

}  // namespace

void bind_plan(nb::module_& m) {
  nb::class_<Plan>(m, "Plan", "The immutable assignment of segments to bins for one step.")
      .def_ro("step", &Plan::step)
      .def_ro("tokens", &Plan::tokens)
      .def_ro("target_tokens", &Plan::target_tokens)
      .def_ro("capacity", &Plan::capacity)
      .def_ro("last", &Plan::last)
      .def_ro("max_delay", &Plan::max_delay)
      .def_ro("delays", &Plan::delays)
      .def_prop_ro("debts", &debts_of, "Per source: units asked and not drawn yet, after the step.")
      .def_ro("asked", &Plan::asked)
      .def_ro("served", &Plan::served)
      .def_prop_ro("content_hash", [](const Plan& plan) { return plan.content_hash.hex(); })
      .def_prop_ro("plan_hash", [](const Plan& plan) { return plan.plan_hash.hex(); })
      .def_prop_ro("carried", [](const Plan& plan) { return plan.state_after->carried.size(); })
      .def_prop_ro("microbatches",
                   [](const Plan& plan) { return plan.layers.front().microbatches; })
      .def("bins", &bins_of,
           "Per bin: (source, pass, position, first, count, targets, flags) of each segment.")
      .def("placement", &placement_of, "Per bin: (bucket, microbatch, slot).")
      .def("columns", &plan_columns, "int64 arrays, one value per segment in bin order.")
      .def(
          "report", &plan_report,
          "How even the layer is and could be, in nanoseconds of its cost model; None without one.")
      .def("hdp", &hdp_groups, "Groups of ranks and their sequences; None without slices.")
      .def("further_reports", &further_reports,
           "As `report`, one for each further cost of a vector balance.")
      .def("encoder", &encoder_table,
           "The encoder's layer: columns, report, dummies, exchanges; None without one.")
      .def("views", &views_of, "Per rank: what it sees of a microbatch.");
}

}  // namespace overlord::python
