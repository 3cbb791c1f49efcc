// Binds plan/pipeline/pipeline_order.h: the order of microbatches, for `overlord simulate` and for
// looking at plans.
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>

#include "bindings.h"
#include "errors.h"
#include "overlord/base/enum_names.h"
#include "overlord/plan/pipeline/pipeline_order.h"
#include "overlord/runtime/steady_clock.h"

namespace nb = nanobind;

namespace overlord::python {
namespace {

using Costs = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig>;

nb::dict pipeline_order(Costs costs, uint32_t stages, const std::string& method,
                        uint32_t virtual_stages, int64_t backward_permille) {
  const auto chosen = unwrap(enum_of<model::OrderMethod>(method, "method"));
  const plan::PipelineShape shape{stages, virtual_stages, backward_permille};
  const int64_t begin_ns = runtime::steady_now_ns();
  auto ordered = [&] {
    nb::gil_scoped_release free;
    return plan::order_microbatches(chosen, shape, {costs.data(), costs.shape(0)});
  }();
  const int64_t elapsed_ns = runtime::steady_now_ns() - begin_ns;
  const plan::Ordered found = unwrap(std::move(ordered));
  nb::dict out;
  out["order"] = found.order;
  out["makespan"] = found.makespan;
  out["lower_bound"] = found.lower_bound;
  out["kept_makespan"] = found.kept_makespan;
  out["seconds"] = static_cast<double>(elapsed_ns) / 1e9;
  return out;
}

}  // namespace

void bind_plan_order(nb::module_& m) {
  m.def("pipeline_order", &pipeline_order, nb::arg("costs"), nb::arg("stages"), nb::arg("method"),
        nb::arg("virtual_stages") = 1, nb::arg("backward_permille") = 2000,
        "Order the microbatches of one pipeline under 1F1B: order, makespan, lower_bound, "
        "kept_makespan and the seconds it took. `costs` are forward times on a stage.");
}

}  // namespace overlord::python
