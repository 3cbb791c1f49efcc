// Binds the way to a node: its directory and lock, the job it is started with, attaching to it.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <tuple>

#include "bindings.h"
#include "errors.h"
#include "fields_dict.h"
#include "job_handle.h"
#include "overlord/node/engine/attached_engine.h"
#include "overlord/node/hosts/decoding.h"
#include "overlord/node/node_directory.h"
#include "overlord/node/status/metrics_text.h"
#include "overlord/node/status/node_status_call.h"
#include "overlord/protocol/job_codec.h"
#include "overlord/roles/keeper/attach_book.h"
#include "overlord/roles/keeper/hosts.h"
#include "overlord/roles/keeper/process_placement.h"
#include "told_sources.h"

namespace nb = nanobind;

namespace overlord::python {
namespace {

Digest digest_of_hex(const std::string& hex) {
  Digest digest;
  if (!Digest::parse(hex, &digest)) raise(invalid_argument("not a hash of 32 hex digits: " + hex));
  return digest;
}

// The directory of one job on this host, with its lock where this process holds it.
class Directory {
 public:
  Directory(const std::string& job, const std::string& base)
      : directory_(unwrap(node::NodeDirectory::for_job(digest_of_hex(job), base))) {}

  static Directory at(const std::string& path) {
    return Directory(unwrap(node::NodeDirectory::make(path)));
  }

  std::string path() const { return directory_.path(); }
  // Whether nobody else holds it: then there is no node, and this process may start one.
  bool try_lock() {
    lock_ = unwrap(directory_.try_lock());
    if (lock_) unwrap(directory_.clear(*lock_));
    return lock_.has_value();
  }
  // The same where a node has died: what it has left is for the next.
  bool take_over() {
    lock_ = unwrap(directory_.try_lock());
    return lock_.has_value();
  }
  int lock_descriptor() const { return lock_ ? lock_->descriptor() : -1; }
  // The lock now belongs to the process that has inherited its descriptor.
  void hand_over_lock() { lock_.reset(); }
  void remove() {
    if (!lock_) return;
    const Status status = directory_.remove(std::move(*lock_));
    lock_.reset();
    if (!status.ok()) raise(status);
  }

 private:
  explicit Directory(node::NodeDirectory directory) : directory_(std::move(directory)) {}

  node::NodeDirectory directory_;
  std::optional<node::DirectoryLock> lock_;
};

nb::bytes job_file(const JobHandle& job, std::vector<Rank> ranks,
                   const model::RuntimeOptions& options, std::vector<std::string> worker_command,
                   std::string journal_path, const std::map<std::string, nb::dict>& told) {
  protocol::JobFile file =
      job.job_file(std::move(ranks), options, std::move(worker_command), std::move(journal_path));
  tell_sources(told_sources(told), &file.spec);
  const std::string bytes = protocol::encode_job_file(file);
  return nb::bytes(bytes.data(), bytes.size());
}

nb::bytes refusal(const std::string& error, std::string text) {
  const std::string bytes =
      protocol::encode_control(protocol::Refused{Status(code_named(error), std::move(text))});
  return nb::bytes(bytes.data(), bytes.size());
}

std::shared_ptr<node::AttachedEngine> attach(std::string directory, const std::string& job,
                                             uint32_t attempt, std::vector<Rank> ranks,
                                             const std::optional<nb::bytes>& state,
                                             bool allow_mixture, bool allow_sources,
                                             bool allow_batch, const std::vector<std::string>& wire,
                                             double connect_s, double timeout_s, double recovery_s,
                                             std::shared_ptr<transport::HostPinning> pinning) {
  node::AttachRequest request;
  request.directory = std::move(directory);
  request.job = digest_of_hex(job);
  request.attempt = attempt;
  request.ranks = std::move(ranks);
  if (state) request.state.assign(state->c_str(), state->size());
  request.allowed = {allow_mixture, allow_sources, allow_batch};
  for (const std::string& word : wire) {
    const size_t equals = std::min(word.find('='), word.size() - 1);
    if (!request.wire.take(word.substr(0, equals), word.substr(equals + 1))) {
      raise(invalid_argument("wire: unknown option " + word));
    }
  }
  request.pinning = std::move(pinning);
  request.connect_ms = static_cast<int64_t>(connect_s * 1000);
  request.timeout_ms = static_cast<int64_t>(timeout_s * 1000);
  request.recovery_ms = static_cast<int64_t>(recovery_s * 1000);
  Result<std::unique_ptr<node::AttachedEngine>> engine = [&] {
    nb::gil_scoped_release free;
    return node::AttachedEngine::attach(std::move(request));
  }();
  return unwrap(std::move(engine));
}

// Of the node, with all of its engine's beside it. People know a process by its "pid".
nb::dict node_dict(const node::NodeStatus& status) {
  nb::dict out = python::dict_of(status);
  out.update(nb::cast<nb::dict>(out["engine"]));
  nb::del(out["engine"]);
  const auto name_pid = [](nb::handle one) {
    one["pid"] = one["process"];
    nb::del(one["process"]);
  };
  name_pid(out);
  for (const nb::handle process : nb::list(out["processes"])) name_pid(process);
  return out;
}

// (name, cores, whether it has ranks, sources whose files lie on its disks)
using ToldHost = std::tuple<std::string, uint32_t, bool, std::vector<std::string>>;

// Rooms of hosts: what planner and constructors, which are dealt over those with ranks, leave of
// them.
std::vector<plan::HostRoom> rooms_of(const std::vector<ToldHost>& hosts, uint32_t buckets) {
  const auto with_ranks = static_cast<uint32_t>(std::count_if(
      hosts.begin(), hosts.end(), [](const auto& host) { return std::get<2>(host); }));
  std::vector<plan::HostRoom> out;
  for (const auto& [name, cores, ranks, holds] : hosts) {
    const uint32_t own = ranks ? (buckets + with_ranks - 1) / with_ranks : 0;
    out.push_back({name, plan::spare_cores(cores, own, /*plans=*/out.empty()), ranks});
    out.back().holds = holds;
  }
  if (out.empty()) out.push_back({});
  return out;
}

// `decoding`: thousandths of a core that it keeps busy, by source.
nb::list choose_decoding(const JobHandle& job, const std::vector<ToldHost>& hosts, uint32_t buckets,
                         const std::map<std::string, uint64_t>& decoding) {
  plan::DecodeRoom room{hosts.size() > 1, 0, 0};
  for (const plan::HostRoom& host : rooms_of(hosts, buckets)) {
    (host.ranks ? room.near_cores : room.far_cores) += host.cores;
  }
  nb::list out;
  for (const plan::DecodeChoice& choice : node::choose_decoding(job.job(), room, decoding)) {
    if (!choice.why.empty()) out.append(python::dict_of(choice));
  }
  return out;
}

// Only names, loaders and numbers count, so that a config can be asked about before its data is.
nb::dict place_processes(
    const std::vector<std::tuple<std::string, uint32_t, uint32_t, uint32_t, uint64_t, bool>>&
        sources,
    uint32_t buckets, uint32_t loader_processes, uint32_t constructor_processes,
    std::vector<std::vector<std::string>> isolate, bool isolate_by_rule,
    const std::vector<ToldHost>& hosts) {
  model::JobSpec spec;
  for (const auto& [name, loaders, workers, shadows, millicores, python] : sources) {
    model::Source& source = spec.sources.emplace_back();
    source.name = name;
    source.loaders = loaders;
    source.workers = workers;
    source.shadows = shadows;
    source.measured = {.elapsed_ns = 1000, .work_ns = millicores};
    if (python) source.transform.function = "a user's";
  }
  std::vector<uint32_t> numbers(buckets);
  std::iota(numbers.begin(), numbers.end(), 0u);
  const keeper::ProcessPlacement placement =
      keeper::place_processes(spec, numbers,
                              {.loader_processes = loader_processes,
                               .constructor_processes = constructor_processes,
                               .isolated = std::move(isolate),
                               .by_rule = isolate_by_rule});
  nb::dict processes;
  for (const protocol::ProcessRoles& process : placement.processes) {
    processes[process.name.c_str()] = process.roles.size() + process.standby.size();
  }
  const std::vector<plan::HostRoom> rooms = rooms_of(hosts, buckets);
  std::vector<std::string> names;
  for (const model::Source& source : spec.sources) names.push_back(source.name);
  const std::vector<plan::HomelessGroup> groups =
      keeper::movable_groups(placement.processes, plan::slot_millicores(spec.sources), names);
  const plan::GroupHomes homes = plan::home_groups(groups, rooms, {});
  nb::dict out, work;
  for (const plan::HomelessGroup& group : groups) work[group.name.c_str()] = group.millicores;
  out["millicores"] = work;
  out["homes"] = nb::cast(homes);
  out["home_reasons"] = nb::cast(plan::home_reasons(groups, rooms, homes));
  out["processes"] = processes;
  out["reasons"] = nb::cast(placement.reasons);
  return out;
}

void bind_placement(nb::module_& m) {
  m.def("place_processes", &place_processes, nb::arg("sources"), nb::arg("buckets"),
        nb::arg("loader_processes"), nb::arg("constructor_processes"), nb::arg("isolate"),
        nb::arg("isolate_by_rule") = true, nb::arg("hosts") = std::vector<ToldHost>(),
        "Processes with their roles, and hosts of those that may move, with the reason of each; of "
        "(name, loaders, workers, shadows, measured millicores, runs Python) and (name, cores, has "
        "ranks, "
        "sources on its disks).");
  m.def("choose_decoding", &choose_decoding, nb::arg("job"), nb::arg("hosts"), nb::arg("buckets"),
        nb::arg("decoding"),
        "Who decodes the media of each source that has some, and why; of the hosts of "
        "place_processes, and the thousandths of a core that decoding keeps busy.");
}

}  // namespace

void bind_node(nb::module_& m) {
  m.attr("OPENINGS_PER_START") = keeper::kOpeningsPerStart;
  nb::class_<Directory>(m, "SocketDirectory", "Where the processes of one job on this host meet.")
      .def(nb::init<const std::string&, const std::string&>(), nb::arg("job"), nb::arg("base") = "")
      .def_static("at", &Directory::at, nb::arg("path"), "Made where it is not there.")
      .def_prop_ro("path", &Directory::path)
      .def("try_lock", &Directory::try_lock)
      .def("take_over", &Directory::take_over)
      .def_prop_ro("lock_descriptor", &Directory::lock_descriptor)
      .def("hand_over_lock", &Directory::hand_over_lock)
      .def("remove", &Directory::remove);
  nb::class_<node::AttachedEngine, node::Engine>(m, "AttachedEngine",
                                                 "The trainer's end of a node on this host.")
      .def(
          "node_status",
          [](node::AttachedEngine& engine, double timeout_s) {
            Result<node::NodeStatus> status = [&] {
              nb::gil_scoped_release free;
              return engine.node_status(static_cast<int64_t>(timeout_s * 1000));
            }();
            return node_dict(unwrap(std::move(status)));
          },
          nb::arg("timeout_s") = 2.0)
      .def_prop_ro("held_bytes", &node::AttachedEngine::held_bytes)
      .def_prop_ro("source_names", [](const node::AttachedEngine& engine) {
        return engine.welcome().source_names;
      });
  nb::class_<transport::HostPinning>(m, "HostPinning", "Registers memory with a CUDA device.");
  m.def(
      "cuda_pinning", [](int device) { return unwrap(transport::cuda_pinning(device)); },
      nb::arg("device"),
      "Who pins memory for a CUDA device; an error that says why where nobody can.");
  m.def("job_file", &job_file, nb::arg("job"), nb::arg("ranks"), nb::arg("options"),
        nb::arg("worker_command"), nb::arg("journal_path") = "",
        nb::arg("told") = std::map<std::string, nb::dict>(),
        "The job as a node process is started with it; told: ToldSource by name.");
  m.def("attach", &attach, nb::arg("directory"), nb::arg("job"), nb::arg("attempt"),
        nb::arg("ranks"), nb::arg("state").none(), nb::arg("allow_mixture"),
        nb::arg("allow_sources"), nb::arg("allow_batch"), nb::arg("wire"), nb::arg("connect_s"),
        nb::arg("timeout_s"), nb::arg("recovery_s") = 0.0, nb::arg("pinning").none() = nb::none(),
        "Attach ranks to the node in a directory; waits until it serves. None: nobody is there.");
  m.def("refusal", &refusal, nb::arg("error"), nb::arg("text"),
        "What a node that waits for its job is sent instead: the name of an error, and its text.");
  bind_placement(m);
  m.def(
      "ask_node",
      [](const std::string& directory, double timeout_s) {
        Result<node::NodeStatus> status = [&] {
          nb::gil_scoped_release free;
          return node::ask_node(directory, static_cast<int64_t>(timeout_s * 1000));
        }();
        return node_dict(unwrap(std::move(status)));
      },
      nb::arg("directory"), nb::arg("timeout_s") = 2.0, "What the node in a directory does.");
  m.def(
      "node_metrics",
      [](const std::string& directory, double timeout_s) {
        Result<node::NodeStatus> status = [&] {
          nb::gil_scoped_release free;
          return node::ask_node(directory, static_cast<int64_t>(timeout_s * 1000));
        }();
        return node::metrics_text(unwrap(std::move(status)));
      },
      nb::arg("directory"), nb::arg("timeout_s") = 2.0, "The same as Prometheus text.");
}

}  // namespace overlord::python
