// Binds what an index keeps of every row, as arrays: for histograms and tools, never for a stream.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "bindings.h"
#include "errors.h"
#include "overlord/columnar/index/source_index.h"
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

// Whether a row belongs to the source, which may be a part of what the index has.
class PartOfIndex {
 public:
  PartOfIndex(const model::Source& source, const model::SourceManifest& manifest) {
    if (!source.filter) return;
    filter_ = *source.filter;
    const auto& names = source.metadata_columns;
    const auto at = std::find(names.begin(), names.end(), filter_.column);
    values_ = manifest.columns[static_cast<size_t>(at - names.begin())];
  }
  bool has(size_t row) const {
    return values_.empty() || (values_[row] >= filter_.least && values_[row] <= filter_.most);
  }

 private:
  std::span<const uint32_t> values_;
  model::RowFilter filter_;
};

nb::object length_counts(const std::string& path, const model::Source& source,
                         const std::vector<uint64_t>& limits) {
  const auto index = unwrap(columnar::SourceIndex::open(path, source));
  const model::SourceManifest& manifest = index->manifest();
  if (manifest.meta_origin != model::MetaOrigin::kIndex) return nb::none();
  const uint64_t specials = (source.bos ? 1 : 0) + (source.eod ? 1 : 0);
  const PartOfIndex part(source, manifest);
  uint64_t documents = 0, tokens = 0, longest = 0;
  std::vector<std::pair<uint64_t, uint64_t>> above(limits.size());
  for (size_t row = 0; row < manifest.lengths.size(); ++row) {
    const uint32_t stored = manifest.lengths[row];
    if (stored == model::kBadRow || stored == 0 || !part.has(row)) continue;
    const uint64_t length = stored + specials;
    ++documents;
    tokens += length;
    longest = std::max(longest, length);
    for (size_t i = 0; i < limits.size(); ++i) {
      if (length <= limits[i]) continue;
      ++above[i].first;
      above[i].second += length;
    }
  }
  nb::dict out;
  out["documents"] = documents;
  out["tokens"] = tokens;
  out["longest"] = longest;
  out["above"] = above;
  return out;
}

}  // namespace

void bind_index_columns(nb::module_& m) {
  m.def("index_columns", &index_columns, nb::arg("path"), nb::arg("source"),
        "What an index keeps by row: `lengths` in tokens (None: not known; `bad` where the row is "
        "bad), and by media field the sizes in bytes (`absent`: none) and what the probe found.");
  m.def(
      "length_counts", &length_counts, nb::arg("path"), nb::arg("source"), nb::arg("limits"),
      nb::sig("def length_counts(path: str, source: Source, limits: Sequence[int]) -> dict | None"),
      "Documents of a source by the lengths its index has, with bos and eod: how many, their "
      "tokens, the longest, and documents and tokens of those `above` each limit; None: lengths "
      "are not known.");
}

}  // namespace overlord::python
