// Hybrid data parallelism between C++ and Python: models and names in, groups as flat arrays out.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "errors.h"
#include "overlord/model/hdp.h"

namespace overlord::python {

// Gives the values to numpy.
template <typename T>
nanobind::object array_of(std::vector<T> values, size_t columns = 0) {
  auto* held = new std::vector<T>(std::move(values));
  nanobind::capsule owner(held, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  if (columns == 0) {
    const size_t shape[1] = {held->size()};
    return nanobind::cast(
        nanobind::ndarray<nanobind::numpy, T, nanobind::ndim<1>>(held->data(), 1, shape, owner));
  }
  const size_t shape[2] = {held->size() / columns, columns};
  return nanobind::cast(
      nanobind::ndarray<nanobind::numpy, T, nanobind::ndim<2>>(held->data(), 2, shape, owner));
}

// Calls `visit(name, field)` for each field of a model, so that reading and writing cannot differ.
template <typename Model, typename Visit>
void visit_hdp_model(Model& model, Visit visit) {
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

inline model::HdpModel hdp_model_of(const nanobind::dict& values) {
  model::HdpModel model;
  visit_hdp_model(model, [&](const char* name, auto& field) {
    field = nanobind::cast<std::remove_reference_t<decltype(field)>>(values[name]);
  });
  return model;
}

inline model::HdpMethod hdp_method_of(const std::string& name) {
  if (name == "static") return model::HdpMethod::kStatic;
  if (name == "power_of_two") return model::HdpMethod::kPowerOfTwo;
  if (name == "naive") return model::HdpMethod::kNaive;
  if (name == "buckets") return model::HdpMethod::kBuckets;
  if (name == "search") return model::HdpMethod::kSearch;
  raise(invalid_argument("hdp: no such method; " + name));
}

inline model::HdpBalance hdp_balance_of(const std::string& name) {
  if (name == "dp") return model::HdpBalance::kDp;
  if (name == "pp") return model::HdpBalance::kPp;
  raise(invalid_argument("hdp: balance is dp or pp; " + name));
}

inline void put_groups(std::span<const model::HdpGroup> groups, nanobind::dict* out) {
  std::vector<uint32_t> ranks, rank_ends, sequences, sequence_ends, microbatches, offload;
  std::vector<uint64_t> tokens, targets;
  std::vector<int64_t> costs, starts;
  for (const model::HdpGroup& group : groups) {
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
  nanobind::dict& d = *out;
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

}  // namespace overlord::python
