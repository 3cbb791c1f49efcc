// ClientPlaceTree: the trainer's ranks as a tree, one level per axis of the mesh. It says who
// consumes data together: the consumers that a layer of a plan is dealt to.
//
// Consumers of an axis are told apart by the data axes ("dp", "dp_...") and by that axis itself:
//   dp     data-parallel groups, each with its context, tensor and pipeline peers
//   cp     every context-parallel rank for itself (hybrid data parallelism)
//   world  every rank (encoder data parallelism)
// Ranks of one consumer see the same samples. Axes that have no data of their own (tp, pp, ep, any
// other name) never divide samples unless they are asked for by name.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/model/mesh.h"

namespace overlord::plan {

inline constexpr std::string_view kWorld = "world";

// Axes whose ranks see different samples: "dp" and every axis named "dp_...".
bool is_data_axis(std::string_view name);
// Do consumers of `axis` differ in their coordinate along `by`?
bool tells_apart(std::string_view axis, std::string_view by);
// Consumers of the data axes together.
uint32_t bucket_count(const model::Mesh& mesh);

class ClientPlaceTree {
 public:
  explicit ClientPlaceTree(model::Mesh mesh) : mesh_(std::move(mesh)) {}

  // Refused with the axes there are.
  Status check_axis(std::string_view axis) const;
  uint32_t count_at(std::string_view axis) const;
  uint32_t consumer_of(Rank rank, std::string_view axis) const;

 private:
  std::vector<const model::Axis*> dividing(std::string_view axis) const;

  model::Mesh mesh_;
};

}  // namespace overlord::plan
