// Binds model/plan.h for inspection, and the planner's pure functions that benches call.
#include "overlord/model/plan.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>

#include "bindings.h"
#include "errors.h"
#include "hdp_tables.h"
#include "overlord/base/hash.h"
#include "overlord/plan/mixing.h"
#include "overlord/plan/packing.h"
#include "overlord/runtime/steady_clock.h"
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

const char* share_name(model::Share share) {
  switch (share) {
    case model::Share::kNone:
      return "none";
    case model::Share::kBoundaries:
      return "boundaries";
    case model::Share::kSlice:
      return "slice";
    case model::Share::kFull:
      return "full";
  }
  return "unknown";
}

nb::list views_of(const Plan& plan) {
  nb::list out;
  for (const model::ClientView& view : plan.layers.front().views->by_rank) {
    nb::dict row;
    row["bucket"] = view.bucket;
    row["share"] = share_name(view.share);
    row["fields"] = view.fields;
    row["slice"] = view.slice;
    row["slices"] = view.slices;
    out.append(row);
  }
  return out;
}

nb::dict pack_stats(nb::ndarray<const uint32_t, nb::ndim<1>, nb::c_contig> lengths,
                    uint32_t context, uint32_t bins, uint32_t slack_permille, uint32_t max_delay) {
  plan::PackStats stats;
  const int64_t begin_ns = runtime::steady_now_ns();
  {
    nb::gil_scoped_release free;
    stats = plan::pack_stream({lengths.data(), lengths.shape(0)}, context, bins, slack_permille,
                              max_delay);
  }
  const int64_t elapsed_ns = runtime::steady_now_ns() - begin_ns;
  nb::dict out;
  out["fill"] = stats.fill_ppm / 1e6;
  out["docs"] = stats.documents;
  out["steps"] = stats.steps;
  out["max_delay"] = stats.max_delay;
  out["seconds"] = static_cast<double>(elapsed_ns) / 1e9;
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
  m.def("pack_stats", &pack_stats, nb::arg("lengths"), nb::arg("context"), nb::arg("bins"),
        nb::arg("slack_permille"), nb::arg("max_delay"),
        "Pack a stream of document lengths with best_fit and report fill, steps and delay.");
  m.def(
      "hash_bytes", [](nb::bytes data) { return digest_of(data.c_str(), data.size()).hex(); },
      nb::arg("data"), "XXH3-128 as 32 hex digits.");
  m.def(
      "text_digest", [](nb::bytes data) { return digest_of(data.c_str(), data.size()).hex(); },
      nb::arg("data"), "XXH3-128 as 32 hex digits.");
}

}  // namespace overlord::python
