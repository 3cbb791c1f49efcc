#include "overlord/model/mesh.h"

#include <limits>

#include "overlord/base/bytes.h"

namespace overlord::model {

Result<Mesh> Mesh::make(std::vector<Axis> axes) {
  Mesh mesh;
  uint64_t world = 1;
  for (size_t i = 0; i < axes.size(); ++i) {
    const Axis& axis = axes[i];
    if (axis.name.empty()) return invalid_argument("mesh: an axis has no name");
    if (axis.size == 0) {
      return invalid_argument("mesh: axis sizes start at 1; got 0 for axis " + axis.name);
    }
    for (size_t j = 0; j < i; ++j) {
      if (axes[j].name == axis.name) {
        return invalid_argument("mesh: axis named twice: " + axis.name);
      }
    }
    world *= axis.size;
    if (world > std::numeric_limits<uint32_t>::max()) {
      return invalid_argument("mesh: more than 2^32 ranks");
    }
  }
  mesh.axes_ = std::move(axes);
  mesh.world_size_ = static_cast<uint32_t>(world);
  return mesh;
}

uint32_t Mesh::size(std::string_view axis) const {
  for (const Axis& candidate : axes_) {
    if (candidate.name == axis) return candidate.size;
  }
  return 1;
}

uint32_t Mesh::coordinate(Rank rank, std::string_view axis) const {
  OVERLORD_CHECK(rank < world_size_, "rank outside the mesh");
  uint32_t rest = rank;
  uint32_t found = 0;
  for (size_t i = axes_.size(); i-- > 0;) {  // last axis is the fastest
    if (axes_[i].name == axis) found = rest % axes_[i].size;
    rest /= axes_[i].size;
  }
  return found;
}

std::set<uint32_t> ViewTable::buckets() const {
  std::set<uint32_t> out;
  for (const ClientView& view : by_rank) {
    if (view.present()) out.insert(view.bucket);
  }
  return out;
}

Digest Mesh::digest() const { return digest_of(text()); }

std::string Mesh::text() const {
  std::string out;
  for (const Axis& axis : axes_) {
    if (!out.empty()) out += ',';
    out += axis.name + '=' + std::to_string(axis.size);
  }
  return out;
}

}  // namespace overlord::model
