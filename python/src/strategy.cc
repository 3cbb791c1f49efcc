// Binds model/strategy.h: what the config layer declares about placement.
#include "overlord/model/strategy.h"

#include <nanobind/stl/string.h>

#include "bindings.h"
#include "cost_dict.h"
#include "errors.h"
#include "overlord/protocol/spec_codec.h"

namespace nb = nanobind;

namespace overlord::python {
namespace {

void set_cost(model::Strategy& strategy, const nb::dict& data) {
  strategy.cost = cost_model_of(data);
  const Status status = model::check_cost_model(strategy.cost);
  if (!status.ok()) raise(status);
  strategy.has_cost = true;
}

model::CalloutFunction function_of(std::string name, std::string version, int64_t scale) {
  if (name.empty()) raise(invalid_argument("strategy: a function needs a name"));
  return {std::move(name), std::move(version), scale};
}

}  // namespace

void bind_strategy(nb::module_& m) {
  using namespace model;
  nb::enum_<BalanceMethod>(m, "BalanceMethod")
      .value("arrival", BalanceMethod::kArrival)
      .value("greedy", BalanceMethod::kGreedy)
      .value("lpt", BalanceMethod::kLpt)
      .value("lpt_search", BalanceMethod::kLptSearch)
      .value("karmarkar_karp", BalanceMethod::kKarmarkarKarp)
      .value("zigzag", BalanceMethod::kZigzag);
  nb::enum_<BalanceLevel>(m, "BalanceLevel")
      .value("bucket", BalanceLevel::kBucket)
      .value("bin", BalanceLevel::kBin)
      .value("interleaved", BalanceLevel::kInterleaved);
  nb::enum_<Atoms>(m, "Atoms")
      .value("sequences", Atoms::kSequences)
      .value("samples", Atoms::kSamples);
  nb::enum_<OrderMethod>(m, "OrderMethod")
      .value("keep", OrderMethod::kKeep)
      .value("ascending", OrderMethod::kAscending)
      .value("descending", OrderMethod::kDescending)
      .value("small_ends", OrderMethod::kSmallEnds)
      .value("search", OrderMethod::kSearch);
  nb::class_<Strategy>(m, "Strategy", "How the bins of a step are dealt to consumers.")
      .def(nb::init<>())
      .def_rw("name", &Strategy::name)
      .def_rw("axis", &Strategy::axis)
      .def_rw("group_size", &Strategy::group_size)
      .def_rw("balance", &Strategy::balance)
      .def_rw("level", &Strategy::level)
      .def_rw("atoms", &Strategy::atoms)
      .def_rw("microbatch_tokens", &Strategy::microbatch_tokens)
      .def_rw("order", &Strategy::order)
      .def_rw("virtual_stages", &Strategy::virtual_stages)
      .def_rw("backward_permille", &Strategy::backward_permille)
      .def("set_cost", &set_cost, nb::arg("model"), "The cost of a sample, as a cost model's data.")
      .def(
          "set_cost_function",
          [](Strategy& strategy, std::string name, std::string version, int64_t scale) {
            strategy.cost_by = function_of(std::move(name), std::move(version), scale);
            strategy.has_cost = true;
          },
          nb::arg("name"), nb::arg("version"), nb::arg("scale"),
          "The cost of a sample is what a Python function says.")
      .def(
          "set_balance_function",
          [](Strategy& strategy, std::string name, std::string version) {
            strategy.balance_by = function_of(std::move(name), std::move(version), 1);
          },
          nb::arg("name"), nb::arg("version"), "Bins go where a Python function says.")
      .def(
          "set_plan_function",
          [](Strategy& strategy, std::string name, std::string version) {
            strategy.plan_by = function_of(std::move(name), std::move(version), 1);
          },
          nb::arg("name"), nb::arg("version"),
          "Bins go where a Python function says that knows their samples.");
  m.def(
      "strategy_digest",
      [](const Strategy& strategy) { return protocol::strategy_digest(strategy).hex(); },
      nb::arg("strategy"), "32 hex digits over all that decides a placement.");
}

}  // namespace overlord::python
