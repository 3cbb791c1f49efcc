// Binds the value types of model/: what the config layer fills in.
#include <nanobind/stl/pair.h>

#include "bindings.h"
#include "errors.h"
#include "fields_dict.h"
#include "overlord/model/job_spec.h"
#include "overlord/model/mesh.h"
#include "overlord/node/engine/indexing.h"
#include "overlord/plan/place/place_tree.h"
#include "overlord/protocol/spec_codec.h"

namespace nb = nanobind;

namespace overlord::python {
namespace {

model::Mesh make_mesh(const std::vector<std::pair<std::string, uint32_t>>& axes) {
  std::vector<model::Axis> out;
  for (const auto& [name, size] : axes) out.push_back({name, size});
  return unwrap(model::Mesh::make(std::move(out)));
}

void bind_mesh(nb::module_& m) {
  using model::Mesh;
  nb::class_<Mesh>(m, "Mesh", "The trainer's ranks as named axes, slowest first.")
      .def(
          "__init__",
          [](Mesh* self, const std::vector<std::pair<std::string, uint32_t>>& axes) {
            new (self) Mesh(make_mesh(axes));
          },
          nb::arg("axes"))
      .def_prop_ro("world_size", &Mesh::world_size)
      .def_prop_ro("axes",
                   [](const Mesh& mesh) {
                     std::vector<std::pair<std::string, uint32_t>> axes;
                     for (const model::Axis& axis : mesh.axes()) {
                       axes.emplace_back(axis.name, axis.size);
                     }
                     return axes;
                   })
      .def(
          "size", [](const Mesh& mesh, const std::string& axis) { return mesh.size(axis); },
          nb::arg("axis"))
      .def(
          "coordinate",
          [](const Mesh& mesh, Rank rank, const std::string& axis) {
            if (rank >= mesh.world_size()) {
              raise(invalid_argument("rank " + std::to_string(rank) + " is outside the mesh " +
                                     mesh.text()));
            }
            return mesh.coordinate(rank, axis);
          },
          nb::arg("rank"), nb::arg("axis"))
      .def("text", &Mesh::text);
}

}  // namespace

void bind_spec(nb::module_& m) {
  bind_fields<model::Source>(m, "Source", "One dataset: a name, files, columns and policies.");
  bind_fields<model::Strategy>(m, "Strategy", "How the bins of a step are dealt to consumers.");
  bind_fields<model::JobSpec>(m, "JobSpec", "Everything that decides what a step holds.");
  bind_fields<model::RuntimeOptions>(m, "RuntimeOptions",
                                     "Sizes and limits; they never change the stream.");
  bind_fields<model::DeliverySpec>(m, "DeliverySpec",
                                   "Places and shapes of what the trainer receives.");
  bind_mesh(m);
  m.def(
      "media_use",
      [](const std::string& kind, const std::string& transform,
         const std::vector<std::string>& places) {
        return dict_of(unwrap(node::media_use(kind, transform, places)));
      },
      nb::arg("kind"), nb::arg("transform"), nb::arg("places"),
      "How blobs of a field travel with their documents, transformed; without tokens of their "
      "own.");
  m.def(
      "strategy_digest",
      [](const model::Strategy& strategy) { return protocol::strategy_digest(strategy).hex(); },
      nb::arg("strategy"), "32 hex digits over all that decides a placement.");
  m.def(
      "ranks_served",
      [](const model::Mesh& mesh, std::vector<std::string> broadcast_axes, bool all_stages,
         bool payload) {
        model::DeliverySpec delivery;
        delivery.broadcast_axes = std::move(broadcast_axes);
        delivery.all_stages = all_stages;
        return plan::ranks_served(*plan::make_views(mesh, delivery, 1), payload);
      },
      nb::arg("mesh"), nb::arg("broadcast_axes"), nb::arg("all_stages"), nb::arg("payload"),
      "Ranks that get something of a microbatch; payload: more than where documents end.");
  m.attr("WEIGHT_ONE") = model::kWeightOne;
}

}  // namespace overlord::python
