// Binds plan/hybrid/hdp.h: lengths and a model in, flat arrays of groups out.
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "errors.h"
#include "fields_dict.h"
#include "hdp_dict.h"
#include "overlord/plan/hybrid/hdp.h"

namespace nb = nanobind;

namespace overlord::python {
namespace {

using Tokens = nb::ndarray<const uint32_t, nb::ndim<1>, nb::c_contig>;

nb::dict named_model(const std::string& name) {
  const auto model = plan::h200_model(name);
  if (!model) raise(invalid_argument("hdp: no such model; " + name));
  return dict_of(*model);
}

nb::dict hdp_plan(Tokens lengths, uint32_t ranks, const nb::dict& model, Tokens targets,
                  uint32_t stages, bool offload, const std::string& balance,
                  const std::string& method, bool powers_of_two, uint32_t align,
                  uint32_t max_microbatches, bool check_it) {
  plan::HdpProblem problem;
  problem.lengths = {lengths.data(), lengths.shape(0)};
  problem.targets = {targets.data(), targets.shape(0)};
  problem.ranks = ranks;
  problem.stages = stages;
  read_fields(model, "hdp: model", &problem.model);
  problem.offload = offload;
  problem.balance = unwrap(enum_of<model::HdpBalance>(balance, "hdp: balance"));
  problem.method = unwrap(enum_of<model::HdpMethod>(method, "hdp: method"));
  problem.powers_of_two = powers_of_two;
  problem.align = align;
  problem.max_microbatches = max_microbatches;
  Result<plan::HdpPlan> result = [&] {
    nb::gil_scoped_release free;
    return plan::plan_hdp(problem);
  }();
  plan::HdpPlan plan = unwrap(std::move(result));
  if (check_it) check(plan::check_hdp(plan, problem));
  nb::dict out;
  put_groups(plan.groups, &out);
  out["rank_microbatches"] = owned_array(std::move(plan.rank_microbatches));
  out["rank_ns"] = owned_array(std::move(plan.rank_ns));
  out["microbatch_targets"] = owned_array(std::move(plan.microbatch_targets));
  out["targets"] = plan.targets;
  out["makespan_ns"] = plan.makespan_ns;
  out["lower_bound_ns"] = plan.lower_bound_ns;
  out["gap_ppm"] = plan.gap_ppm;
  out["limiting_sequence"] = plan.limiting_sequence == plan::kNoSequence
                                 ? nb::object(nb::none())
                                 : nb::object(nb::int_(plan.limiting_sequence));
  return out;
}

nb::object hdp_slices(uint32_t length, uint32_t members, uint32_t align) {
  if (members < 1 || align < 1) raise(invalid_argument("hdp: members and align are positive"));
  std::vector<uint32_t> rows;
  for (uint32_t member = 0; member < members; ++member) {
    const plan::HdpSlice slice = plan::slice_of(length, members, member, align);
    rows.insert(rows.end(), {slice.low.first, slice.low.count, slice.high.first, slice.high.count});
  }
  return owned_array<uint32_t>(std::move(rows), {members, 4});
}

}  // namespace

void bind_plan_hdp(nb::module_& m) {
  m.def("hdp_plan", &hdp_plan, nb::arg("lengths"), nb::arg("ranks"), nb::arg("model"),
        nb::arg("targets"), nb::arg("stages"), nb::arg("offload"), nb::arg("balance"),
        nb::arg("method"), nb::arg("powers_of_two"), nb::arg("align"), nb::arg("max_microbatches"),
        nb::arg("check"),
        "Plan one step of hybrid data parallelism; groups are flat arrays in global order.");
  m.def("hdp_model", &named_model, nb::arg("name"), "A measured cost model by name.");
  m.def("hdp_slices", &hdp_slices, nb::arg("length"), nb::arg("members"), nb::arg("align"),
        "Per member of a group: first and count of its low chunk, then of its high chunk.");
}

}  // namespace overlord::python
