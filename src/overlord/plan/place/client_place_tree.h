// ClientPlaceTree: the trainer's ranks as a tree, one level per axis of the mesh and hosts at the
// leaves. It says who consumes data together: `nodes_at(axis)` are the consumers that a layer of a
// plan is dealt to. A rebuilt tree gets a new version, and takes effect at a step boundary.
//
// Consumers of an axis are told apart by the data axes ("dp", "dp_...") and by that axis itself:
//   dp     data-parallel groups, each with its context, tensor and pipeline peers
//   cp     every context-parallel rank for itself (hybrid data parallelism)
//   world  every rank (encoder data parallelism)
// Ranks of one consumer see the same samples. Axes that have no data of their own (tp, pp, ep, any
// other name) never divide samples unless they are asked for by name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
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

struct PlaceNode {
  uint32_t index = 0;       // of the consumer at its axis
  std::string name;         // "dp=3", "dp=3,cp=1"; "rank=17" at world
  std::vector<Rank> ranks;  // ascending
  std::vector<uint32_t> hosts;
};

class ClientPlaceTree {
 public:
  ClientPlaceTree(model::Mesh mesh, uint32_t ranks_per_host, uint32_t version);

  const model::Mesh& mesh() const { return mesh_; }
  uint32_t version() const { return version_; }
  uint32_t host_of(Rank rank) const { return rank / ranks_per_host_; }
  uint32_t hosts() const { return host_of(mesh_.world_size() - 1) + 1; }

  // Refused with the axes there are.
  Status check_axis(std::string_view axis) const;
  uint32_t count_at(std::string_view axis) const;
  uint32_t consumer_of(Rank rank, std::string_view axis) const;
  std::vector<PlaceNode> nodes_at(std::string_view axis) const;
  // One line a level, for people: "dp: 4 nodes of 8 ranks on 4 hosts".
  std::vector<std::string> lines() const;

 private:
  std::vector<const model::Axis*> dividing(std::string_view axis) const;

  model::Mesh mesh_;
  uint32_t ranks_per_host_;
  uint32_t version_;
};

}  // namespace overlord::plan
