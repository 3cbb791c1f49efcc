// Binds plan/pipeline_order.h: the order of microbatches, for benches and for looking at plans.
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <string>
#include <utility>

#include "bindings.h"
#include "errors.h"
#include "overlord/plan/pipeline_order.h"
#include "overlord/runtime/steady_clock.h"

namespace nb = nanobind;

namespace overlord::python {
namespace {

using Costs = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig>;
using Orders = nb::ndarray<const uint32_t, nb::ndim<2>, nb::c_contig>;
using plan::OrderMethod;

constexpr std::array<std::pair<const char*, OrderMethod>, 5> kMethods{{
    {"keep", OrderMethod::kKeep},
    {"ascending", OrderMethod::kAscending},
    {"descending", OrderMethod::kDescending},
    {"small_ends", OrderMethod::kSmallEnds},
    {"search", OrderMethod::kSearch},
}};

OrderMethod method_of(const std::string& name) {
  std::string known;
  for (const auto& [text, method] : kMethods) {
    if (name == text) return method;
    known += known.empty() ? text : std::string(", ") + text;
  }
  raise(invalid_argument("method: one of " + known + ", got " + name));
}

nb::dict pipeline_order(Costs costs, uint32_t stages, const std::string& method,
                        uint32_t virtual_stages, int64_t backward_permille) {
  const OrderMethod chosen = method_of(method);
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

std::vector<int64_t> pipeline_makespan(Costs costs, uint32_t stages, Orders orders,
                                       uint32_t virtual_stages, int64_t backward_permille) {
  if (orders.shape(1) != costs.shape(0)) {
    raise(invalid_argument("orders: a row per order, a column per microbatch: has " +
                           std::to_string(orders.shape(1)) + " columns for " +
                           std::to_string(costs.shape(0))));
  }
  auto spans = [&] {
    nb::gil_scoped_release free;
    return plan::makespans({stages, virtual_stages, backward_permille},
                           {costs.data(), costs.shape(0)}, {orders.data(), orders.size()});
  }();
  return unwrap(std::move(spans));
}

}  // namespace

void bind_plan_order(nb::module_& m) {
  m.def("pipeline_order", &pipeline_order, nb::arg("costs"), nb::arg("stages"), nb::arg("method"),
        nb::arg("virtual_stages") = 1, nb::arg("backward_permille") = 2000,
        "Order the microbatches of one pipeline under 1F1B: order, makespan, lower_bound, "
        "kept_makespan and the seconds it took. `costs` are forward times on a stage.");
  m.def("pipeline_makespan", &pipeline_makespan, nb::arg("costs"), nb::arg("stages"),
        nb::arg("orders"), nb::arg("virtual_stages") = 1, nb::arg("backward_permille") = 2000,
        "Makespan under 1F1B of each order, a row of `orders`.");
}

}  // namespace overlord::python
