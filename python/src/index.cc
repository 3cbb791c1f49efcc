// Binds indexing: a task that runs in threads of its own and is watched from Python.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <future>
#include <map>
#include <memory>

#include "bindings.h"
#include "errors.h"
#include "overlord/columnar/index/source_index.h"
#include "overlord/columnar/text_rules.h"
#include "overlord/node/engine/indexing.h"
#include "overlord/runtime/thread_executor.h"

namespace nb = nanobind;

namespace overlord::python {
namespace {

// One source being indexed; started by the constructor, ended by wait() or the destructor.
class IndexTask {
 public:
  IndexTask(model::Source source, std::string path, bool lengths, uint32_t threads,
            std::vector<std::string> worker_command, std::vector<std::string> others)
      : source_(std::move(source)), path_(std::move(path)), others_(std::move(others)) {
    options_.lengths = lengths;
    options_.threads = threads;
    try {
      done_ = std::async(std::launch::async,
                         [this, command = std::move(worker_command)] { return run(command); });
    } catch (const std::system_error&) {
      raise(runtime::no_thread("indexing"));
    }
  }
  ~IndexTask() {
    cancel_.cancel();
    if (done_.valid()) done_.wait();
  }

  // True when it has finished well; raises when it failed.
  bool wait(double timeout_s) {
    Status status;
    {
      nb::gil_scoped_release free;
      if (finished_) return true;
      if (done_.wait_for(std::chrono::duration<double>(timeout_s)) != std::future_status::ready) {
        return false;
      }
      status = done_.get();
      finished_ = true;
    }
    check(status);
    return true;
  }

  void cancel() { cancel_.cancel(); }

  nb::dict progress() const {
    nb::dict out;
    out["shards_total"] = progress_.shards_total.load();
    out["shards_done"] = progress_.shards_done.load();
    out["bytes_total"] = progress_.bytes_total.load();
    out["bytes_done"] = progress_.bytes_done.load();
    out["rows"] = progress_.rows.load();
    return out;
  }

 private:
  Status run(const std::vector<std::string>& worker_command) {
    return node::index_source(source_, path_, options_, others_, worker_command, &progress_,
                              cancel_);
  }

  model::Source source_;
  std::string path_;
  std::vector<std::string> others_;
  columnar::IndexOptions options_;
  columnar::IndexProgress progress_;
  runtime::CancelToken cancel_;
  std::future<Status> done_;
  bool finished_ = false;
};

nb::dict index_info(const std::string& path, const model::Source& source) {
  const auto index = unwrap(columnar::SourceIndex::open(path, source));
  const model::SourceManifest& manifest = index->manifest();
  nb::list shards;
  for (const model::ShardEntry& shard : manifest.shards) {
    nb::dict row;
    row["uri"] = shard.uri;
    row["rows"] = shard.rows;
    row["size_bytes"] = shard.fingerprint.size_bytes;
    row["modified_ns"] = shard.fingerprint.modified_ns;
    shards.append(row);
  }
  uint64_t tokens = 0;
  for (const uint32_t length : manifest.lengths) tokens += length == model::kBadRow ? 0 : length;
  nb::dict out;
  out["rows"] = manifest.rows;
  out["shards"] = shards;
  out["blocks"] = manifest.blocks.size();
  out["digest"] = manifest.digest.hex();
  out["has_lengths"] = manifest.meta_origin == model::MetaOrigin::kIndex;
  out["tokens"] = tokens;
  const auto bad = index->bad_rows();
  std::vector<uint64_t> empty;
  for (const auto& [row, reason] : bad) {
    if (columnar::tells_empty_row(reason)) empty.push_back(row);
  }
  out["bad_rows"] = nb::cast(bad);
  out["empty_rows"] = nb::cast(empty);  // those of them that hold nothing
  out["mapped_bytes"] = index->mapped_bytes();
  return out;
}

nb::dict read_media(const std::string& path, const model::Source& source, uint64_t row) {
  Result<std::vector<std::vector<std::string>>> read = [&] {
    nb::gil_scoped_release free;
    return node::read_row_media(source, path, row);
  }();
  const std::vector<std::vector<std::string>> media = unwrap(std::move(read));
  nb::dict out;
  for (size_t i = 0; i < media.size(); ++i) {
    const model::MediaField& field = source.media[i];
    nb::list blobs;
    for (const std::string& blob : media[i]) blobs.append(nb::bytes(blob.data(), blob.size()));
    if (field.many) {
      out[field.name.c_str()] = blobs;
    } else if (!media[i].empty()) {
      out[field.name.c_str()] = blobs[0];
    }
  }
  return out;
}

std::vector<std::string> list_files(const std::string& pattern) {
  auto listed = [&] {
    nb::gil_scoped_release free;  // a store may take its time to answer
    return node::list_files(pattern);
  }();
  std::vector<std::string> files = unwrap(std::move(listed));
  for (const std::string& file : files) {
    const auto size = static_cast<Py_ssize_t>(file.size());
    const nb::object text = nb::steal(PyUnicode_DecodeUTF8(file.data(), size, "strict"));
    if (text.is_valid()) continue;
    PyErr_Clear();
    raise(invalid_argument("file name is not UTF-8: " + file + "; rename the file"));
  }
  return files;
}

nb::bytes read_file(const std::string& uri, uint64_t most_bytes) {
  auto read = [&] {
    nb::gil_scoped_release free;  // a store may take its time to answer
    return node::read_file(uri, most_bytes);
  }();
  const std::string bytes = unwrap(std::move(read));
  return nb::bytes(bytes.data(), bytes.size());
}

}  // namespace

void bind_index(nb::module_& m) {
  nb::class_<IndexTask>(m, "IndexTask", "Indexing of one source, in threads of its own.")
      .def(nb::init<model::Source, std::string, bool, uint32_t, std::vector<std::string>,
                    std::vector<std::string>>(),
           nb::arg("source"), nb::arg("path"), nb::arg("lengths"), nb::arg("threads"),
           nb::arg("worker_command"), nb::arg("others") = std::vector<std::string>())
      .def("wait", &IndexTask::wait, nb::arg("timeout_s"))
      .def("cancel", &IndexTask::cancel)
      .def("progress", &IndexTask::progress);
  m.def("index_key", &node::index_key, nb::arg("source"), nb::arg("patterns"),
        "What the name of a source's index has beside the source's.");
  m.def("index_info", &index_info, nb::arg("path"), nb::arg("source"),
        "What an index file says of its source.");
  m.def("read_media", &read_media, nb::arg("path"), nb::arg("source"), nb::arg("row"),
        "Bytes of a row's media by name, read through the index; absent ones are left out, fields "
        "with many are lists.");
  m.def("list_files", &list_files, nb::arg("pattern"), "A glob as sorted URIs.");
  m.def("read_file", &read_file, nb::arg("uri"), nb::arg("most_bytes"),
        "All of a file or object that has no more bytes than that.");
  m.def(
      "expand_braces",
      [](const std::string& pattern) { return unwrap(node::expand_braces(pattern)); },
      nb::arg("pattern"), "The patterns that one with braces stands for.");
}

}  // namespace overlord::python
