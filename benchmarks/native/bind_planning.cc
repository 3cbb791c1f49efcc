// Times whole plans over made-up metadata, for `overlord bench planner`: selection, placement,
// report, views and hashes of a step, as the planner role makes them, without any data behind them.
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "bound.h"
#include "made_up_planner.h"

namespace nb = nanobind;

namespace overlord::bench {
namespace {

Result<Planned> plan_steps(const model::JobSpec& spec, const model::Mesh& mesh,
                           const model::DeliverySpec& delivery, std::span<const uint32_t> lengths,
                           uint32_t steps) {
  OVERLORD_RETURN_IF_ERROR(plan::check_fit(spec, mesh, delivery));
  OVERLORD_RETURN_IF_ERROR(plan::check_strategy(spec, mesh, delivery));
  MadeUpPlanner planner(spec, mesh, delivery, lengths);
  Planned out;
  while (out.milliseconds.size() < steps) {
    const bool is_last = out.milliseconds.size() + 1 == steps;
    OVERLORD_RETURN_IF_ERROR(planner.plan_next(is_last, &out));
  }
  planner.tell_held(&out);
  return out;
}

nb::dict planning_times(nb::ndarray<const uint32_t, nb::ndim<1>, nb::c_contig> lengths,
                        uint32_t sources, uint32_t context, uint32_t bins, const model::Mesh& mesh,
                        const model::Strategy& strategy, uint32_t steps, uint32_t window) {
  model::JobSpec spec = made_up_job(sources, context, bins, strategy);
  spec.window = {window, window, plan::bucket_count(mesh), strategy.cost};
  const std::span<const uint32_t> values(lengths.data(), lengths.shape(0));
  Result<Planned> planned = [&] {
    nb::gil_scoped_release free;
    return plan_steps(spec, mesh, {}, values, steps);
  }();
  const Planned found = unwrap(std::move(planned));
  nb::dict out;
  out["milliseconds"] = found.milliseconds;
  out["step_ms"] = found.step_ms;
  out["arrival_step_ms"] = found.arrival_ms;
  out["samples_per_step"] = found.samples / found.milliseconds.size();
  out["carried"] = found.carried;
  out["posted_rows"] = found.posted_rows;
  nb::dict held;
  held["metadata"] = found.held.metadata;
  held["selection"] = found.held.selection;
  held["plan"] = found.held.plan;
  held["graph"] = found.held.graph;
  out["held_bytes"] = held;
  return out;
}

}  // namespace

void bind_planning(nb::module_& m) {
  m.def("planning_times", &planning_times, nb::arg("lengths"), nb::arg("sources"),
        nb::arg("context"), nb::arg("bins"), nb::arg("mesh"), nb::arg("strategy"), nb::arg("steps"),
        nb::arg("window"),
        "CPU milliseconds of whole plans over made-up metadata, one per step, and what is held.");
}

}  // namespace overlord::bench
