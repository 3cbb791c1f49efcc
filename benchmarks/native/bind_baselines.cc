// Binds hdp_baselines.h. Models are the dicts of overlord.hdp.
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <string>
#include <utility>

#include "bound.h"
#include "hdp_baselines.h"
#include "overlord/plan/hybrid/hdp.h"

namespace nb = nanobind;

namespace overlord::bench {
namespace {

using Lengths = nb::ndarray<const uint32_t, nb::ndim<1>, nb::c_contig>;

nb::dict hdp_baseline(Lengths lengths, uint32_t ranks, const std::string& model,
                      const std::string& method, uint32_t context) {
  const auto known = plan::h200_model(model);
  if (!known) throw nb::value_error("no such model");
  plan::HdpProblem problem;
  problem.lengths = {lengths.data(), lengths.shape(0)};
  problem.ranks = ranks;
  problem.model = *known;
  problem.offload = false;
  if (method != "static" && method != "power_of_two") throw nb::value_error("no such method");
  const plan::HdpPlan planned =
      unwrap(method == "static" ? plan_static(problem, context) : plan_powers_of_two(problem));
  nb::dict out;
  out["makespan_ns"] = planned.makespan_ns;
  out["gap_ppm"] = planned.gap_ppm;
  return out;
}

}  // namespace

void bind_baselines(nb::module_& m) {
  m.def("hdp_baseline", &hdp_baseline, nb::arg("lengths"), nb::arg("ranks"), nb::arg("model"),
        nb::arg("method"), nb::arg("context"),
        "How long a step takes by `static` or `power_of_two`, and its gap to the bound.");
}

}  // namespace overlord::bench
