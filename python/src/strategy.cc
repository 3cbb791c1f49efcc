// Binds model/strategy.h: what the config layer declares about placement.
#include "overlord/model/strategy.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "bindings.h"
#include "cost_dict.h"
#include "errors.h"
#include "hdp_dict.h"
#include "overlord/protocol/spec_codec.h"

namespace nb = nanobind;

namespace overlord::python {
namespace {

model::CostModel checked_cost(const nb::dict& data) {
  model::CostModel cost = cost_model_of(data);
  const Status status = model::check_cost_model(cost);
  if (!status.ok()) raise(status);
  return cost;
}

void set_cost(model::Strategy& strategy, const nb::dict& data) {
  strategy.cost = checked_cost(data);
  strategy.has_cost = true;
}

void set_hybrid(model::Strategy& strategy, const nb::dict& data) {
  strategy.atoms = model::Atoms::kSlices;
  strategy.hdp.model = hdp_model_of(nb::cast<nb::dict>(data["model"]));
  strategy.hdp.method = hdp_method_of(nb::cast<std::string>(data["method"]));
  strategy.hdp.balance.reset();
  if (!data["balance"].is_none()) {
    strategy.hdp.balance = hdp_balance_of(nb::cast<std::string>(data["balance"]));
  }
  strategy.hdp.offload = nb::cast<bool>(data["offload"]);
  strategy.hdp.powers_of_two = nb::cast<bool>(data["powers_of_two"]);
  strategy.hdp.max_microbatches = nb::cast<uint32_t>(data["max_microbatches"]);
}

void bind_encoder_strategy(nb::module_& m) {
  using model::EncoderStrategy;
  nb::class_<EncoderStrategy>(m, "EncoderStrategy", "A module whose samples have other owners.")
      .def(nb::init<>())
      .def_rw("module", &EncoderStrategy::module)
      .def_rw("axis", &EncoderStrategy::axis)
      .def_rw("group_size", &EncoderStrategy::group_size)
      .def_rw("column", &EncoderStrategy::column)
      .def_rw("balance", &EncoderStrategy::balance)
      .def_rw("parity", &EncoderStrategy::parity)
      .def_rw("bytes_per_unit", &EncoderStrategy::bytes_per_unit)
      .def(
          "set_cost",
          [](EncoderStrategy& encoder, const nb::dict& data) { encoder.cost = checked_cost(data); },
          nb::arg("model"), "The cost of a sample's units, as a cost model's data.");
}

model::CalloutFunction function_of(std::string name, std::string version, int64_t scale) {
  if (name.empty()) raise(invalid_argument("strategy: a function needs a name"));
  return {std::move(name), std::move(version), scale};
}

void bind_choices(nb::module_& m) {
  using namespace model;
  nb::enum_<BalanceMethod>(m, "BalanceMethod")
      .value("arrival", BalanceMethod::kArrival)
      .value("greedy", BalanceMethod::kGreedy)
      .value("lpt", BalanceMethod::kLpt)
      .value("lpt_search", BalanceMethod::kLptSearch)
      .value("karmarkar_karp", BalanceMethod::kKarmarkarKarp)
      .value("zigzag", BalanceMethod::kZigzag)
      .value("vector", BalanceMethod::kVector);
  nb::enum_<BalanceLevel>(m, "BalanceLevel")
      .value("bucket", BalanceLevel::kBucket)
      .value("bin", BalanceLevel::kBin)
      .value("interleaved", BalanceLevel::kInterleaved);
  nb::enum_<Atoms>(m, "Atoms")
      .value("sequences", Atoms::kSequences)
      .value("samples", Atoms::kSamples)
      .value("slices", Atoms::kSlices);
  nb::enum_<OrderMethod>(m, "OrderMethod")
      .value("keep", OrderMethod::kKeep)
      .value("ascending", OrderMethod::kAscending)
      .value("descending", OrderMethod::kDescending)
      .value("small_ends", OrderMethod::kSmallEnds)
      .value("search", OrderMethod::kSearch);
}

}  // namespace

void bind_strategy(nb::module_& m) {
  using model::Strategy;
  bind_choices(m);
  bind_encoder_strategy(m);
  nb::class_<Strategy>(m, "Strategy", "How the bins of a step are dealt to consumers.")
      .def(nb::init<>())
      .def_rw("name", &Strategy::name)
      .def_rw("axis", &Strategy::axis)
      .def_rw("group_size", &Strategy::group_size)
      .def_rw("balance", &Strategy::balance)
      .def_rw("level", &Strategy::level)
      .def_rw("atoms", &Strategy::atoms)
      .def_rw("microbatch_tokens", &Strategy::microbatch_tokens)
      .def_rw("memory_limit", &Strategy::memory_limit)
      .def_rw("order", &Strategy::order)
      .def_rw("virtual_stages", &Strategy::virtual_stages)
      .def_rw("backward_permille", &Strategy::backward_permille)
      .def("set_cost", &set_cost, nb::arg("model"), "The cost of a sample, as a cost model's data.")
      .def("set_hybrid", &set_hybrid, nb::arg("hybrid"),
           "Deal slices: model, method, balance (None: by stages), offload, powers_of_two, "
           "max_microbatches.")
      .def_rw("encoder", &Strategy::encoder)
      .def(
          "add_cost",
          [](Strategy& strategy, const nb::dict& data) {
            strategy.further_costs.push_back(checked_cost(data));
          },
          nb::arg("model"), "A further cost that a vector balance evens out too.")
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
