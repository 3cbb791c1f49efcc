// Binds plan/partition/partition.h: how many loaders and workers sources get.
#include "bindings.h"
#include "errors.h"
#include "fields_dict.h"
#include "overlord/plan/partition/partition.h"

namespace nb = nanobind;

namespace overlord::python {
namespace {

nb::dict partition(const nb::list& sources, const nb::dict& room) {
  std::vector<plan::SourceLoad> loads;
  PythonValue<std::vector<plan::SourceLoad>>::read(sources, "sources", &loads);
  plan::PartitionRoom there;
  read_fields(room, "room", &there);
  return dict_of(unwrap(plan::partition_sources(loads, there)));
}

}  // namespace

void bind_plan_partition(nb::module_& m) {
  m.def("partition", &partition, nb::arg("sources"), nb::arg("room"),
        "Sizes of the loaders of all sources, from what their rows cost: sizes (loaders, workers, "
        "cluster, reason, loader_bytes), free_cores, memory_bytes and step_ns.");
}

}  // namespace overlord::python
