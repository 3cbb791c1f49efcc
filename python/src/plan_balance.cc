// Binds plan/balance/balance.h for benches and for a look at what a balancer does.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "errors.h"
#include "overlord/plan/balance/balance.h"
#include "owned_array.h"

namespace nb = nanobind;

namespace overlord::python {
namespace {

using Column = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::span<const int64_t> span_of(const Column& column) { return {column.data(), column.shape(0)}; }

nb::object atom_or_none(uint32_t atom) {
  return atom == plan::kNoAtom ? nb::none() : nb::cast(atom);
}

nb::dict balance(const Column& costs, uint32_t bins, const std::string& method,
                 const std::optional<Column>& sizes, int64_t size_limit, bool equal_count) {
  plan::BalanceProblem problem;
  problem.costs = span_of(costs);
  if (sizes) problem.sizes = span_of(*sizes);
  problem.bins = bins;
  problem.size_limit = size_limit;
  problem.equal_count = equal_count;
  plan::Balanced answer;
  Status status;
  {
    nb::gil_scoped_release free;
    static thread_local plan::Balancer balancer;
    const auto parsed = plan::parse_balance_method(method);
    status = parsed.status();
    if (status.ok()) {
      auto result = balancer.run(*parsed, problem);
      status = result.status();
      if (result.ok()) answer = std::move(result).value();
    }
  }
  check(status);
  nb::dict out;
  out["bin_of"] = owned_array(std::move(answer.bin_of));
  out["left"] = owned_array(std::move(answer.left));
  out["max_load"] = answer.max_load;
  out["min_load"] = answer.min_load;
  out["total"] = answer.total;
  out["lower_bound"] = answer.lower_bound;
  out["bound_by"] = std::string(plan::load_limit_name(answer.bound_by));
  out["limiting_atom"] = atom_or_none(answer.limiting_atom);
  out["method"] = std::string(plan::balance_method_name(answer.method));
  out["placed_by_size"] = answer.placed_by_size;
  out["search_operations"] = answer.search_operations;
  return out;
}

}  // namespace

void bind_plan_balance(nb::module_& m) {
  m.def("balance", &balance, nb::arg("costs"), nb::arg("bins"), nb::arg("method") = "lpt_search",
        nb::arg("sizes") = nb::none(), nb::arg("size_limit") = 0, nb::arg("equal_count") = false,
        "Put atoms with these costs onto bins; `bin_of` is 2**32 - 1 for atoms that are `left`.");
}

}  // namespace overlord::python
