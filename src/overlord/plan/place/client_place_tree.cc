#include "overlord/plan/place/client_place_tree.h"

#include <string>

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
  OVERLORD_CHECK(rank < mesh_.world_size(), "a rank of the mesh");
  uint32_t consumer = 0;
  for (const model::Axis* own : dividing(axis)) {
    consumer = consumer * own->size + mesh_.coordinate(rank, own->name);
  }
  return consumer;
}

}  // namespace overlord::plan
