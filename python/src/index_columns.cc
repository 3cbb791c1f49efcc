// Binds what an index keeps of every row, as arrays: for histograms and tools, never for a stream.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <span>
#include <vector>

#include "bindings.h"
#include "errors.h"
#include "overlord/columnar/source_index.h"
#include "owned_array.h"

namespace nb = nanobind;

namespace overlord::python {
namespace {

// The size that stands for a blob which is not there; no blob is so large.
constexpr uint32_t kAbsent = 0xffffffffu;

nb::object copy_of(std::span<const uint32_t> values) {
  return owned_array(std::vector<uint32_t>(values.begin(), values.end()));
}

nb::dict index_columns(const std::string& path, const model::Source& source) {
  const auto index = unwrap(columnar::SourceIndex::open(path, source));
  const bool known = index->manifest().meta_origin == model::MetaOrigin::kIndex;
  nb::dict media;
  for (size_t field = 0; field < source.media.size(); ++field) {
    nb::list values;
    for (size_t which = 0; which <= index->media_values_per_blob(); ++which) {
      values.append(copy_of(index->media_values(field, which)));
    }
    media[source.media[field].name.c_str()] = values;
  }
  nb::dict out;
  out["lengths"] = known ? copy_of(index->manifest().lengths) : nb::none();
  out["media"] = media;
  out["bad"] = model::kBadRow;
  out["absent"] = kAbsent;
  return out;
}

}  // namespace

void bind_index_columns(nb::module_& m) {
  m.def("index_columns", &index_columns, nb::arg("path"), nb::arg("source"),
        "What an index keeps by row: `lengths` in tokens (None: not known; `bad` where the row is "
        "bad), and by media field the sizes in bytes (`absent`: none) and what the probe found.");
}

}  // namespace overlord::python
