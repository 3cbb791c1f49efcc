// Binds plan/cost/cost.h, cost_shape.h and cost_presets.h. Models cross the border as plain dicts,
// the same data that a strategy stores.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "errors.h"
#include "fields_dict.h"
#include "overlord/plan/cost/cost.h"
#include "overlord/plan/cost/cost_presets.h"
#include "overlord/plan/cost/cost_shape.h"
#include "owned_array.h"

namespace nb = nanobind;

namespace overlord::python {
namespace {

using model::CostModel;
using Lengths = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

nb::tuple evaluate(const nb::dict& data, const nb::dict& columns) {
  const CostModel model = cost_model_of(data);
  std::vector<std::pair<std::string, Lengths>> held;
  for (auto [name, values] : columns) {
    held.emplace_back(nb::cast<std::string>(name), nb::cast<Lengths>(values));
  }
  std::vector<plan::LengthColumn> lengths;
  for (const auto& [name, values] : held) {
    lengths.push_back({name, {values.data(), values.shape(0)}});
  }
  Result<std::vector<int64_t>> costs = std::vector<int64_t>();
  Result<std::vector<int64_t>> bytes = std::vector<int64_t>();
  {
    nb::gil_scoped_release free;
    costs = plan::evaluate(model, lengths);
    if (costs.ok()) bytes = plan::evaluate_bytes(model, lengths);
  }
  return nb::make_tuple(owned_array(unwrap(std::move(costs))),
                        owned_array(unwrap(std::move(bytes))));
}

// Fields of a shape that the dict names; what it does not name keeps its default.
template <typename T>
void take(const nb::dict& data, const char* name, T* field) {
  if (!data.contains(name)) return;
  nb::object value = data[name];
  if constexpr (std::is_same_v<T, int64_t>) {
    if (!nb::isinstance<nb::int_>(value) || nb::isinstance<nb::bool_>(value)) {
      raise(invalid_argument("cost: " + std::string(name) + " must be a whole number; got " +
                             nb::cast<std::string>(nb::repr(value))));
    }
  }
  if (!nb::try_cast<T>(value, *field)) {
    raise(invalid_argument("cost: " + std::string(name) + " has a wrong value; got " +
                           nb::cast<std::string>(nb::repr(value))));
  }
}

nb::dict transformer(const nb::dict& data) {
  plan::TransformerShape shape;
  take(data, "hidden", &shape.hidden);
  take(data, "layers", &shape.layers);
  take(data, "heads", &shape.heads);
  take(data, "kv_heads", &shape.kv_heads);
  take(data, "ffn", &shape.ffn);
  take(data, "gated", &shape.gated);
  take(data, "causal", &shape.causal);
  if (!shape.causal) shape.attention_flops_per_second = plan::kUnmaskedFlopsPerSecond;
  take(data, "vocabulary", &shape.vocabulary);
  take(data, "experts", &shape.experts);
  take(data, "experts_active", &shape.experts_active);
  take(data, "tp", &shape.tp);
  take(data, "pp", &shape.pp);
  take(data, "flops_per_second", &shape.flops_per_second);
  take(data, "attention_flops_per_second", &shape.attention_flops_per_second);
  take(data, "column", &shape.column);
  return dict_of(unwrap(plan::transformer_cost(shape)));
}

nb::dict vit(const nb::dict& data) {
  plan::VitShape shape;
  take(data, "hidden", &shape.hidden);
  take(data, "layers", &shape.layers);
  take(data, "heads", &shape.heads);
  take(data, "ffn", &shape.ffn);
  take(data, "patches", &shape.patches);
  take(data, "tp", &shape.tp);
  take(data, "flops_per_second", &shape.flops_per_second);
  take(data, "attention_flops_per_second", &shape.attention_flops_per_second);
  take(data, "column", &shape.column);
  return dict_of(unwrap(plan::vit_cost(shape)));
}

nb::list presets() {
  nb::list out;
  const auto ns = [](int64_t fixed) {
    return static_cast<double>(fixed) / static_cast<double>(int64_t{1} << model::kCostBits);
  };
  for (const plan::CostPreset& preset : plan::cost_presets()) {
    nb::dict row;
    row["name"] = std::string(preset.name);
    row["column"] = std::string(preset.column);
    row["kind"] = preset.vit ? "vit" : "transformer";
    row["hidden"] = preset.hidden;
    row["layers"] = preset.layers;
    row["heads"] = preset.heads;
    row["kv_heads"] = preset.kv_heads;
    row["ffn"] = preset.ffn;
    row["bin_ns"] = ns(preset.bin_q32);
    row["linear_ns"] = ns(preset.linear_q32);
    row["quadratic_ns"] = ns(preset.quadratic_q32);
    row["forward_share"] = preset.forward_permille / 1000.0;
    row["rows"] = preset.rows;
    nb::dict errors;
    errors["median"] = preset.median_error_permille / 1000.0;
    errors["p90"] = preset.p90_error_permille / 1000.0;
    errors["max"] = preset.max_error_permille / 1000.0;
    row["errors"] = errors;
    out.append(row);
  }
  return out;
}

}  // namespace

CostModel cost_model_of(const nb::dict& data) {
  CostModel out;
  out.kind = unwrap(
      enum_of<model::CostKind>(nb::cast<std::string>(data["kind"]), "cost model: unknown kind"));
  if (data.contains("bin_q32")) out.bin_q32 = nb::cast<int64_t>(data["bin_q32"]);
  for (const nb::handle item : nb::cast<nb::list>(data["terms"])) {
    const auto term = nb::cast<nb::dict>(item);
    for_each_field(out.terms.emplace_back(), [&](std::string_view name, auto& field) {
      const std::string key(name);
      if (!term.contains(key.c_str())) return;
      field = nb::cast<std::remove_reference_t<decltype(field)>>(term[key.c_str()]);
    });
  }
  return out;
}

void bind_plan_cost(nb::module_& m) {
  m.def("cost_evaluate", &evaluate, nb::arg("model"), nb::arg("columns"),
        "(nanoseconds, bytes) of every row under a cost model given as a dict.");
  m.def("cost_transformer", &transformer, nb::arg("shape"),
        "A cost model from a shape, as a dict.");
  m.def("cost_vit", &vit, nb::arg("shape"), "A cost model from an encoder's shape, as a dict.");
  m.def(
      "cost_preset",
      [](const std::string& name, int64_t layers, int64_t tp, int64_t pp) {
        return dict_of(unwrap(plan::preset_cost(name, layers, tp, pp)));
      },
      nb::arg("name"), nb::arg("layers") = 0, nb::arg("tp") = 1, nb::arg("pp") = 1,
      "A named cost model as a dict; 0 layers are all of them.");
  m.def("cost_presets", &presets, "Shape, coefficients and errors of every preset.");
}

}  // namespace overlord::python
