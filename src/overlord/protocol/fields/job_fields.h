// The fields of a job, in the order in which they travel (see field_codec.h); sections follow the
// order of spec_codec.cc. Everything is carried here, also what no digest covers.
#pragma once

#include <utility>

#include "overlord/model/job_spec.h"
#include "overlord/model/mesh.h"
#include "overlord/protocol/fields/field_codec.h"
#include "overlord/protocol/job_codec.h"

namespace overlord::protocol {

// A mesh is its axes.
template <>
struct Fields<model::Mesh> {
  template <typename Codec>
  static void list(Codec& codec, auto& value) {
    std::vector<model::Axis> axes = value.axes();
    codec(axes);
    if constexpr (!kIsWriter<Codec>) {
      if constexpr (kIsReader<Codec>) {
        if (codec.failed()) return;
      }
      auto mesh = model::Mesh::make(std::move(axes));
      if (!mesh.ok()) return codec.refuse();
      value = std::move(mesh).value();
    }
  }
};

}  // namespace overlord::protocol
