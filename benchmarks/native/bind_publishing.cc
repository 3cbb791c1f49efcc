// CPU of plans that are made and told to everybody, for `overlord bench scaling`.
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "bound.h"
#include "measure_publishing.h"

namespace nb = nanobind;

namespace overlord::bench {
namespace {

nb::dict publishing_times(nb::ndarray<const uint32_t, nb::ndim<1>, nb::c_contig> lengths,
                          uint32_t sources, uint32_t context, uint32_t bins,
                          const model::Mesh& mesh, const model::Strategy& strategy, uint32_t steps,
                          uint32_t loader_processes) {
  const model::JobSpec spec = made_up_job(sources, context, bins, strategy);
  const std::span<const uint32_t> values(lengths.data(), lengths.shape(0));
  Result<PublishedPlans> found = [&] {
    nb::gil_scoped_release free;
    return publish_plans(spec, mesh, values, steps, loader_processes);
  }();
  const PublishedPlans told = unwrap(std::move(found));
  nb::dict out;
  out["plan_ms"] = told.planned.milliseconds;
  out["publish_ms"] = told.publish_ms;
  out["samples_per_step"] = told.planned.samples / steps;
  out["bytes_per_step"] = told.bytes / steps;
  out["frames_per_step"] = told.frames / steps;
  return out;
}

}  // namespace

void bind_publishing(nb::module_& m) {
  m.def("publishing_times", &publishing_times, nb::arg("lengths"), nb::arg("sources"),
        nb::arg("context"), nb::arg("bins"), nb::arg("mesh"), nb::arg("strategy"), nb::arg("steps"),
        nb::arg("loader_processes"),
        "CPU milliseconds of plans and of telling them to so many processes of loaders.");
}

}  // namespace overlord::bench
