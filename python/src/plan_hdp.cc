// Binds plan/hdp.h: lengths and a model in, flat arrays of groups out.
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "errors.h"
#include "overlord/plan/hdp.h"

namespace nb = nanobind;

namespace overlord::python {
namespace {

using Lengths = nb::ndarray<const uint32_t, nb::ndim<1>, nb::c_contig>;

// Gives the values to numpy.
template <typename T>
nb::object array_of(std::vector<T> values, size_t columns = 0) {
  auto* held = new std::vector<T>(std::move(values));
  nb::capsule owner(held, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  if (columns == 0) {
    const size_t shape[1] = {held->size()};
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(held->data(), 1, shape, owner));
  }
  const size_t shape[2] = {held->size() / columns, columns};
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<2>>(held->data(), 2, shape, owner));
}

// Calls `visit(name, field)` for each field of a model, so that reading and writing cannot differ.
template <typename Model, typename Visit>
void visit_model(Model& model, Visit visit) {
  visit("square_fs", model.square_fs);
  visit("token_fs", model.token_fs);
  visit("fixed_fs", model.fixed_fs);
  visit("forward_permille", model.forward_permille);
  visit("activation_token_bytes", model.activation_token_bytes);
  visit("activation_fixed_bytes", model.activation_fixed_bytes);
  visit("layers", model.layers);
  visit("capacity", model.capacity);
  visit("to_host_per_s", model.to_host_per_s);
  visit("from_host_per_s", model.from_host_per_s);
  visit("host_bytes", model.host_bytes);
  visit("ring_token_bytes", model.ring_token_bytes);
  visit("ring_per_s", model.ring_per_s);
  visit("ring_hop_ns", model.ring_hop_ns);
}

plan::HdpModel model_of(const nb::dict& values) {
  plan::HdpModel model;
  visit_model(model, [&](const char* name, auto& field) {
    field = nb::cast<std::remove_reference_t<decltype(field)>>(values[name]);
  });
  return model;
}

nb::dict named_model(const std::string& name) {
  const auto model = plan::h200_model(name);
  if (!model) raise(invalid_argument("hdp: no such model; " + name));
  nb::dict out;
  visit_model(*model, [&](const char* key, const auto& field) { out[key] = field; });
  return out;
}

plan::HdpMethod method_of(const std::string& name) {
  if (name == "static") return plan::HdpMethod::kStatic;
  if (name == "power_of_two") return plan::HdpMethod::kPowerOfTwo;
  if (name == "naive") return plan::HdpMethod::kNaive;
  if (name == "buckets") return plan::HdpMethod::kBuckets;
  if (name == "search") return plan::HdpMethod::kSearch;
  raise(invalid_argument("hdp: no such method; " + name));
}

plan::HdpBalance balance_of(const std::string& name) {
  if (name == "dp") return plan::HdpBalance::kDp;
  if (name == "pp") return plan::HdpBalance::kPp;
  raise(invalid_argument("hdp: balance is dp or pp; " + name));
}

void put_groups(const plan::HdpPlan& plan, nb::dict* out) {
  std::vector<uint32_t> ranks, rank_ends, sequences, sequence_ends, microbatches, offload;
  std::vector<uint64_t> tokens, targets;
  std::vector<int64_t> costs, starts;
  for (const plan::HdpGroup& group : plan.groups) {
    ranks.insert(ranks.end(), group.ranks.begin(), group.ranks.end());
    rank_ends.push_back(static_cast<uint32_t>(ranks.size()));
    sequences.insert(sequences.end(), group.sequences.begin(), group.sequences.end());
    sequence_ends.push_back(static_cast<uint32_t>(sequences.size()));
    microbatches.push_back(group.microbatch);
    offload.push_back(group.offload_permille);
    tokens.push_back(group.tokens);
    targets.push_back(group.targets);
    costs.push_back(group.cost_ns);
    starts.push_back(group.start_ns);
  }
  nb::dict& d = *out;
  d["ranks"] = array_of(std::move(ranks));
  d["rank_ends"] = array_of(std::move(rank_ends));
  d["sequences"] = array_of(std::move(sequences));
  d["sequence_ends"] = array_of(std::move(sequence_ends));
  d["microbatches"] = array_of(std::move(microbatches));
  d["offload_permille"] = array_of(std::move(offload));
  d["tokens"] = array_of(std::move(tokens));
  d["group_targets"] = array_of(std::move(targets));
  d["cost_ns"] = array_of(std::move(costs));
  d["start_ns"] = array_of(std::move(starts));
}

nb::dict hdp_plan(Lengths lengths, uint32_t ranks, const nb::dict& model, Lengths targets,
                  uint32_t stages, bool offload, const std::string& balance,
                  const std::string& method, bool powers_of_two, uint32_t align,
                  uint32_t max_microbatches, uint32_t context, bool check_it) {
  plan::HdpProblem problem;
  problem.lengths = {lengths.data(), lengths.shape(0)};
  problem.targets = {targets.data(), targets.shape(0)};
  problem.ranks = ranks;
  problem.stages = stages;
  problem.model = model_of(model);
  problem.offload = offload;
  problem.balance = balance_of(balance);
  problem.method = method_of(method);
  problem.powers_of_two = powers_of_two;
  problem.align = align;
  problem.max_microbatches = max_microbatches;
  problem.context = context;
  Result<plan::HdpPlan> result = [&] {
    nb::gil_scoped_release free;
    return plan::plan_hdp(problem);
  }();
  plan::HdpPlan plan = unwrap(std::move(result));
  if (check_it) check(plan::check_hdp(plan, problem));
  nb::dict out;
  put_groups(plan, &out);
  out["rank_microbatches"] = array_of(std::move(plan.rank_microbatches));
  out["rank_ns"] = array_of(std::move(plan.rank_ns));
  out["microbatch_targets"] = array_of(std::move(plan.microbatch_targets));
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
  return array_of(std::move(rows), 4);
}

}  // namespace

void bind_plan_hdp(nb::module_& m) {
  m.def("hdp_plan", &hdp_plan, nb::arg("lengths"), nb::arg("ranks"), nb::arg("model"),
        nb::arg("targets"), nb::arg("stages"), nb::arg("offload"), nb::arg("balance"),
        nb::arg("method"), nb::arg("powers_of_two"), nb::arg("align"), nb::arg("max_microbatches"),
        nb::arg("context"), nb::arg("check"),
        "Plan one step of hybrid data parallelism; groups are flat arrays in global order.");
  m.def("hdp_model", &named_model, nb::arg("name"), "A measured cost model by name.");
  m.def("hdp_slices", &hdp_slices, nb::arg("length"), nb::arg("members"), nb::arg("align"),
        "Per member of a group: first and count of its low chunk, then of its high chunk.");
}

}  // namespace overlord::python
