#include "overlord/plan/client_place_tree.h"

#include <algorithm>

#include "overlord/base/check.h"

namespace overlord::plan {

bool is_data_axis(std::string_view name) { return name == "dp" || name.starts_with("dp_"); }

bool tells_apart(std::string_view axis, std::string_view by) {
  return axis == kWorld || by == axis || is_data_axis(by);
}

uint32_t bucket_count(const model::Mesh& mesh) {
  uint32_t count = 1;
  for (const model::Axis& axis : mesh.axes()) {
    if (is_data_axis(axis.name)) count *= axis.size;
  }
  return count;
}

ClientPlaceTree::ClientPlaceTree(model::Mesh mesh, uint32_t ranks_per_host, uint32_t version)
    : mesh_(std::move(mesh)), ranks_per_host_(ranks_per_host), version_(version) {
  OVERLORD_CHECK(ranks_per_host_ > 0, "a host holds at least one rank");
}

// The axes that tell consumers apart, slowest first.
std::vector<const model::Axis*> ClientPlaceTree::dividing(std::string_view axis) const {
  std::vector<const model::Axis*> axes;
  for (const model::Axis& own : mesh_.axes()) {
    if (tells_apart(axis, own.name)) axes.push_back(&own);
  }
  return axes;
}

Status ClientPlaceTree::check_axis(std::string_view axis) const {
  if (axis == kWorld || axis == "dp" || axis == "cp") return {};  // absent ones have one rank
  std::string known = "world, dp, cp";
  for (const model::Axis& own : mesh_.axes()) {
    if (own.name == axis) return {};
    if (own.name != "dp" && own.name != "cp") known += ", " + own.name;
  }
  return invalid_argument("distribute: the mesh " + mesh_.text() + " has no axis '" +
                          std::string(axis) + "'; allowed: " + known);
}

uint32_t ClientPlaceTree::count_at(std::string_view axis) const {
  uint32_t count = 1;
  for (const model::Axis* own : dividing(axis)) count *= own->size;
  return count;
}

uint32_t ClientPlaceTree::consumer_of(Rank rank, std::string_view axis) const {
  uint32_t consumer = 0;
  for (const model::Axis* own : dividing(axis)) {
    consumer = consumer * own->size + mesh_.coordinate(rank, own->name);
  }
  return consumer;
}

std::vector<PlaceNode> ClientPlaceTree::nodes_at(std::string_view axis) const {
  const std::vector<const model::Axis*> axes = dividing(axis);
  std::vector<PlaceNode> nodes(count_at(axis));
  for (Rank rank = 0; rank < mesh_.world_size(); ++rank) {
    PlaceNode& node = nodes[consumer_of(rank, axis)];
    if (node.ranks.empty()) {
      for (const model::Axis* own : axes) {
        if (axis == kWorld) continue;
        if (!node.name.empty()) node.name += ",";
        node.name += own->name + "=" + std::to_string(mesh_.coordinate(rank, own->name));
      }
      if (node.name.empty()) node.name = axis == kWorld ? "rank=" + std::to_string(rank) : "all";
    }
    node.ranks.push_back(rank);
    if (node.hosts.empty() || node.hosts.back() != host_of(rank)) {
      node.hosts.push_back(host_of(rank));
    }
  }
  for (uint32_t i = 0; i < nodes.size(); ++i) nodes[i].index = i;
  return nodes;
}

std::vector<std::string> ClientPlaceTree::lines() const {
  std::vector<std::string> lines;
  lines.push_back("world: " + std::to_string(mesh_.world_size()) + " ranks on " +
                  std::to_string(hosts()) + " hosts, tree version " + std::to_string(version_));
  std::string indent = "  ";
  uint32_t above = 1;
  for (const model::Axis& axis : mesh_.axes()) {
    above *= axis.size;
    lines.push_back(indent + axis.name + ": " + std::to_string(axis.size) + " each, " +
                    std::to_string(above) + " nodes of " +
                    std::to_string(mesh_.world_size() / above) + " ranks" +
                    (is_data_axis(axis.name) ? ", different samples" : ""));
    indent += "  ";
  }
  return lines;
}

}  // namespace overlord::plan
