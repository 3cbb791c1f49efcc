// Binds files of disks and stores as they are: for looks at data, never for a stream.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "errors.h"
#include "overlord/node/engine/indexing.h"

namespace nb = nanobind;

namespace overlord::python {
namespace {

// The files of whatever serves one URI. Calls block without the interpreter's lock.
class StoredFiles {
 public:
  explicit StoredFiles(const std::string& uri) : storage_(unwrap(node::open_files_of(uri))) {}

  std::vector<std::pair<std::string, uint64_t>> below(const std::string& folder, uint64_t most) {
    auto listed = [&] {
      nb::gil_scoped_release free;
      return storage_->list_folder(folder, most);
    }();
    std::vector<std::pair<std::string, uint64_t>> out;
    for (runtime::ListedFile& file : unwrap(std::move(listed))) {
      out.emplace_back(std::move(file.uri), file.size_bytes);
    }
    return out;
  }

  uint64_t size(const std::string& uri) {
    auto info = [&] {
      nb::gil_scoped_release free;
      return storage_->stat(uri);
    }();
    return unwrap(std::move(info)).fingerprint.size_bytes;
  }

  nb::bytes read(const std::string& uri, uint64_t offset, uint64_t size_bytes) {
    auto read = [&] {
      nb::gil_scoped_release free;
      return storage_->read_blocking({uri, offset, size_bytes, {}});
    }();
    const runtime::Bytes bytes = unwrap(std::move(read));
    return nb::bytes(bytes.data, bytes.size);
  }

 private:
  std::unique_ptr<runtime::Storage> storage_;
};

}  // namespace

void bind_stored_files(nb::module_& m) {
  nb::class_<StoredFiles>(m, "StoredFiles", "Files of the disk or the store that serves a URI.")
      .def(nb::init<std::string>(), nb::arg("uri"))
      .def("below", &StoredFiles::below, nb::arg("folder"), nb::arg("most"),
           "URI and size of all files below a folder, sorted; the folder ends with a slash.")
      .def("size", &StoredFiles::size, nb::arg("uri"))
      .def("read", &StoredFiles::read, nb::arg("uri"), nb::arg("offset"), nb::arg("size"));
}

}  // namespace overlord::python
