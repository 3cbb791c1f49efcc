// Binds the running side: Job, Engine, Client, PlanCursor. The GIL is free wherever they wait.
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "bindings.h"
#include "callout.h"
#include "errors.h"
#include "fields_dict.h"
#include "job_handle.h"
#include "overlord/columnar/encoded_rows.h"
#include "plan_tables.h"
#include "status_dict.h"
#include "told_sources.h"

namespace nb = nanobind;

namespace overlord::python {
namespace {

constexpr int64_t kSignalSliceMs = 50;  // how long Ctrl-C may go unnoticed
constexpr int64_t kComeBackMs = 5000;   // for threads that wait, when an engine is closed

using LossRow = std::tuple<SourceIndex, int64_t, uint64_t>;

model::StepFeedback feedback_of(StepIndex step, const std::vector<LossRow>& losses) {
  model::StepFeedback feedback{step, {}, {}};
  for (const auto& [source, loss, tokens] : losses) {
    feedback.losses.push_back({source, loss, tokens});
  }
  return feedback;
}

nb::bytes state_of(const node::KeptPlace& place, double timeout_s) {
  Result<std::string> state = [&] {
    nb::gil_scoped_release free;
    return place.state(static_cast<int64_t>(std::min(timeout_s, 1e9) * 1000));
  }();
  const std::string bytes = unwrap(std::move(state));
  return nb::bytes(bytes.data(), bytes.size());
}

// One rank's end of an engine.
class Client {
 public:
  Client(std::shared_ptr<node::Engine> engine, Rank rank)
      : engine_(std::move(engine)), rank_(rank) {}

  std::shared_ptr<const model::Microbatch> next(double timeout_s) {
    auto left_ms = static_cast<int64_t>(std::min(timeout_s, 1e9) * 1000);
    for (;;) {
      const int64_t slice_ms = std::min(left_ms, kSignalSliceMs);
      Result<model::MicrobatchPtr> batch = wait(slice_ms);
      if (batch.ok() || batch.status().code() != Code::kDeadline) return unwrap(std::move(batch));
      left_ms -= slice_ms;
      if (left_ms <= 0) raise(batch.status());
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
    }
  }

  nb::bytes state(double timeout_s) const { return state_of(place(), timeout_s); }
  node::KeptPlace place() const { return engine_->place(rank_); }
  std::string report(StepIndex step, const std::vector<LossRow>& losses) {
    Result<protocol::Verdict> verdict = [&] {
      nb::gil_scoped_release free;
      return engine_->report(rank_, feedback_of(step, losses));
    }();
    const protocol::Verdict heard = unwrap(std::move(verdict));
    if (heard == protocol::Verdict::kEarly) {
      raise(invalid_argument("step " + std::to_string(step) + " has not been planned"));
    }
    if (heard == protocol::Verdict::kUnwanted) {
      raise(invalid_argument("nobody waits for reports of rank " + std::to_string(rank_) +
                             ", or the report makes no sense; see feedback.reporters"));
    }
    return enum_name(heard);
  }
  uint64_t wait_ns() const { return engine_->wait_ns(rank_); }
  Rank rank() const { return rank_; }

 private:
  // Counted until the interpreter's lock is ours again.
  Result<model::MicrobatchPtr> wait(int64_t timeout_ms) {
    if (!engine_->callers.enter()) return engine_->next(rank_, 0);
    Result<model::MicrobatchPtr> batch = [&] {
      nb::gil_scoped_release free;
      return engine_->next(rank_, timeout_ms);
    }();
    engine_->callers.leave();
    return batch;
  }
  std::shared_ptr<node::Engine> engine_;
  Rank rank_;
};

class Cursor {
 public:
  Cursor(std::shared_ptr<JobHandle> job, std::unique_ptr<node::PlanCursor> cursor,
         std::shared_ptr<FunctionCaller> caller)
      : job_(std::move(job)), caller_(std::move(caller)), cursor_(std::move(cursor)) {}

  std::shared_ptr<const model::Plan> next() {
    Result<model::PlanPtr> plan = [&] {
      nb::gil_scoped_release free;
      return cursor_->next();
    }();
    if (caller_) caller_->rethrow();
    return unwrap(std::move(plan));
  }
  // Plans forward until `step` is the next one.
  void seek(StepIndex step) {
    while (cursor_->state().state.next_step < step) {
      if (!next()) {
        raise(Status(Code::kOutOfRange, "step " + std::to_string(step) +
                                            " is past the end of the stream at step " +
                                            std::to_string(cursor_->state().state.next_step)));
      }
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
    }
    if (cursor_->state().state.next_step > step) {
      raise(Status(Code::kOutOfRange,
                   "step " + std::to_string(step) + " lies before this cursor; make a new one"));
    }
  }
  std::vector<int64_t> weights() const { return cursor_->weights(); }
  nb::object graph() const { return graph_table(cursor_->graph().get()); }
  nb::object samples(const model::Plan& plan, std::optional<SourceIndex> source,
                     const std::vector<std::tuple<std::string, std::string, int64_t>>& conditions) {
    const std::shared_ptr<const plan::DGraph>& graph = cursor_->graph();
    if (graph == nullptr || graph->samples() != plan.layers.front().segments.size()) {
      raise(invalid_argument("samples: this is not the plan that next() gave last"));
    }
    plan::SampleFilter filter{source, {}};
    for (const auto& [column, comparison, value] : conditions) {
      filter.conditions.push_back({column, unwrap(plan::comparison_of(comparison)), value});
    }
    return graph_samples(*graph, plan, filter);
  }
  void report(StepIndex step, const std::vector<LossRow>& losses) {
    if (Status status = cursor_->report(feedback_of(step, losses)); !status.ok()) raise(status);
  }
  nb::bytes state() const {
    const std::string bytes = protocol::encode_resume_state(cursor_->state());
    return nb::bytes(bytes.data(), bytes.size());
  }

  static int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (!nb::inst_ready(self)) return 0;
    const Cursor& cursor = *nb::inst_ptr<Cursor>(self);
    if (cursor.caller_) Py_VISIT(cursor.caller_->function().ptr());
    return 0;
  }
  static int clear(PyObject* self) {
    const Cursor& cursor = *nb::inst_ptr<Cursor>(self);
    if (cursor.caller_) cursor.caller_->forget();
    return 0;
  }

 private:
  std::shared_ptr<JobHandle> job_;
  std::shared_ptr<FunctionCaller> caller_;
  std::unique_ptr<node::PlanCursor> cursor_;
};

std::optional<std::string> to_string(const std::optional<nb::bytes>& bytes) {
  if (!bytes) return std::nullopt;
  return std::string(bytes->c_str(), bytes->size());
}

Cursor open_cursor(std::shared_ptr<JobHandle> job, const std::optional<nb::bytes>& state,
                   std::vector<std::string> worker_command, const nb::object& call, bool place) {
  std::shared_ptr<FunctionCaller> caller;
  node::CallFunction ask;
  if (!call.is_none()) {
    caller = std::make_shared<FunctionCaller>(call);
    ask = [caller](const model::CalloutRequest& request) { return caller->call(request); };
  }
  auto cursor = job->planner(to_string(state), std::move(worker_command), std::move(ask), place);
  return {job, unwrap(std::move(cursor)), std::move(caller)};
}

std::shared_ptr<node::Engine> open_engine(
    JobHandle& job, std::vector<Rank> ranks, const model::RuntimeOptions& options,
    const std::optional<nb::bytes>& state, std::vector<std::string> worker_command,
    bool allow_mixture, bool allow_sources, bool allow_batch, std::string journal_path,
    std::shared_ptr<transport::HostPinning> pinning,
    std::shared_ptr<node::TransformDesk> transforms, const std::map<std::string, nb::dict>& told) {
  const std::optional<std::string> saved = to_string(state);
  ToldSources sources = told_sources(told);
  Result<std::shared_ptr<node::Engine>> engine = [&] {
    nb::gil_scoped_release free;
    return job.open({std::move(ranks),
                     options,
                     saved,
                     std::move(worker_command),
                     {allow_mixture, allow_sources, allow_batch},
                     std::move(journal_path),
                     std::move(pinning),
                     std::move(transforms),
                     std::move(sources)});
  }();
  return unwrap(std::move(engine));
}

nb::dict locate(const JobHandle& job, uint32_t source, uint32_t pass, uint64_t position) {
  const RowPlace place = unwrap(job.locate(source, pass, position));
  nb::dict out;
  out["shard"] = place.shard;
  out["row_in_shard"] = place.row_in_shard;
  out["row"] = place.row;
  return out;
}

nb::dict read_row(JobHandle& job, uint32_t source, uint64_t row,
                  const std::vector<std::string>& worker_command) {
  const RowContent content = unwrap(job.read_row(source, row, worker_command));
  nb::dict out;
  out["shard"] = content.place.shard;
  out["row_in_shard"] = content.place.row_in_shard;
  out["row"] = content.place.row;
  out["bad"] = content.bad.empty() ? nb::none() : nb::cast(content.bad);
  out["text"] = content.is_text ? nb::cast(content.text) : nb::none();
  out["tokens"] = nb::cast(content.tokens);
  out["mask"] = content.mask.empty() ? nb::none() : nb::cast(content.mask);
  return out;
}

using AxisRow = std::pair<std::string, uint32_t>;

StepIndex rebuild(node::Engine& engine, const std::vector<AxisRow>& axes,
                  std::optional<StepIndex> step, std::vector<Rank> ranks) {
  std::vector<model::Axis> wanted;
  for (const auto& [name, size] : axes) wanted.push_back({name, size});
  const planner::TreeWish wish{unwrap(model::Mesh::make(std::move(wanted))), step,
                               std::move(ranks)};
  Result<StepIndex> first = [&] {
    nb::gil_scoped_release free;
    return engine.rebuild(wish);
  }();
  return unwrap(std::move(first));
}

std::pair<std::vector<AxisRow>, std::vector<Rank>> tree_of(node::Engine& engine, uint32_t tree) {
  const node::Engine::TreeNote note = engine.note_of(tree);
  std::vector<AxisRow> rows;
  for (const model::Axis& axis : note.axes) rows.emplace_back(axis.name, axis.size);
  return {rows, note.ranks};
}

void bind_engine(nb::module_& m) {
  using node::Engine;
  nb::class_<Engine>(m, "Engine", "All roles of a job in this process.")
      .def(
          "client",
          [](std::shared_ptr<Engine> engine, Rank rank) {
            const auto& ranks = engine->ranks();
            if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) {
              raise(invalid_argument("rank " + std::to_string(rank) +
                                     " is not hosted by this engine"));
            }
            return Client(std::move(engine), rank);
          },
          nb::arg("rank"))
      .def("status",
           [](Engine& engine) {
             const node::EngineStatus status = [&] {
               nb::gil_scoped_release free;  // a node may take its time to answer
               return engine.status();
             }();
             return dict_of(status);
           })
      .def("quarantine", [](Engine& engine) { return quarantine_list(engine.quarantine()); })
      .def("close",
           [](Engine& engine) {
             nb::gil_scoped_release free;
             engine.close();
             engine.callers.close();
             engine.callers.wait_until_none(kComeBackMs);
           })
      .def("rebuild", &rebuild, nb::arg("axes"), nb::arg("step").none(), nb::arg("ranks"),
           "Plan for another mesh, or other ranks, from a step on; the step from which it holds.")
      .def(
          "resize",
          [](Engine& engine, SourceIndex source, uint32_t slots) {
            check(engine.resize(source, slots));
          },
          nb::arg("source"), nb::arg("slots"), "From some window on, that many slots of a source.")
      .def("tree_of", &tree_of, nb::arg("tree"),
           "Of a later tree: the axes of its mesh, slowest first, and its ranks; none: all.")
      .def_prop_ro("ranks", &Engine::ranks)
      .def_prop_ro("rule", &Engine::rule)
      .def_prop_ro("callouts", &Engine::callouts)
      .def(
          "rank_hash", [](Engine& engine, Rank rank) { return engine.rank_hash(rank).hex(); },
          nb::arg("rank"))
      .def("plan_chain", [](Engine& engine) { return engine.plan_chain().hex(); })
      .def("content_hash", [](Engine& engine) { return engine.content_chain().hex(); })
      .def("stream_hash", [](Engine& engine) { return engine.stream_hash().hex(); });
}

void bind_clients(nb::module_& m) {
  nb::class_<node::KeptPlace>(m, "Place", "Where a rank stood; lives without its engine.")
      .def_prop_ro("next_step", [](const node::KeptPlace& at) { return at.place().next_step; })
      .def_prop_ro(
          "microbatch", [](const node::KeptPlace& at) { return at.place().microbatch; },
          "Microbatches of the next step that were returned already.")
      .def_prop_ro(
          "tree", [](const node::KeptPlace& at) { return at.place().tree; },
          "Version of the tree of what was returned last; 1: the job's own mesh.")
      .def_prop_ro(
          "totals", [](const node::KeptPlace& at) { return dict_of(at.totals()); },
          "What the steps that are finished there held: sequences, samples, tokens.")
      .def("state", &state_of, nb::arg("timeout_s") = 0.0, "The resume state of this place.");
  nb::class_<Client>(m, "Client", "One rank's end of an engine.")
      .def("next", &Client::next, nb::arg("timeout_s"),
           "The next microbatch, or None at the end; DeadlineError after timeout_s.")
      .def("state", &Client::state, nb::arg("timeout_s") = 0.0,
           "Resume state after what next() has returned.")
      .def("report", &Client::report, nb::arg("step"), nb::arg("losses"),
           "Report (source, loss sum in 2**-12, tokens) of a consumed step; gives the verdict.")
      .def_prop_ro("wait_ns", &Client::wait_ns, "How long next() has waited so far.")
      .def("place", &Client::place, "Where the rank stands after what next() has returned.")
      .def_prop_ro("rank", &Client::rank);
}

std::string combine_stream_hash(const std::string& plan_chain,
                                const std::vector<std::string>& rank_hashes) {
  const auto parse = [](const std::string& hex) {
    Digest digest;
    if (!Digest::parse(hex, &digest))
      raise(invalid_argument("not a hash of 32 hex digits: " + hex));
    return digest;
  };
  std::vector<Digest> hashes;
  for (const std::string& hex : rank_hashes) hashes.push_back(parse(hex));
  return host::stream_hash(parse(plan_chain), hashes).hex();
}

std::map<std::string, std::string> changed_data(const JobHandle& job, nb::bytes state) {
  const std::string_view bytes(state.c_str(), state.size());
  auto changed = [&] {
    nb::gil_scoped_release free;  // digests of before are made of the whole index
    return job.changed_data(bytes);
  }();
  return unwrap(std::move(changed));
}

}  // namespace

// A user's function that a cursor calls may lead back to the cursor: the collector must see it.
PyType_Slot cursor_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(&Cursor::traverse)},
                              {Py_tp_clear, reinterpret_cast<void*>(&Cursor::clear)},
                              {0, nullptr}};

void bind_job(nb::module_& m) {
  nb::class_<Cursor>(m, "PlanCursor", nb::type_slots(cursor_slots),
                     "Plans one after another, from metadata alone.")
      .def("next", &Cursor::next, nb::sig("def next(self) -> Plan | None"))
      .def("seek", &Cursor::seek, nb::arg("step"))
      .def("weights", &Cursor::weights,
           "By source: the mixture's weights at the last plan's step; 0 where it gives no more.")
      .def(
          "graph", &Cursor::graph,
          "Edges, costs and metadata columns of the graph that the last plan was read out of; None "
          "before it.")
      .def("samples", &Cursor::samples, nb::arg("plan"), nb::arg("source").none(),
           nb::arg("conditions"),
           "Rows of the last plan's columns that belong to a source and meet conditions like "
           "('image_patches', '>', 0).")
      .def("report", &Cursor::report, nb::arg("step"), nb::arg("losses"),
           "Feedback of a planned step, complete: (source, loss sum in 2**-12, tokens).")
      .def("state", &Cursor::state);
  nb::class_<JobHandle>(m, "Job", "A job whose manifest is frozen.")
      .def(
          "__init__",
          [](JobHandle* self, const model::JobSpec& spec, const model::DeliverySpec& delivery,
             const model::Mesh& mesh, const std::vector<std::string>& index_paths) {
            Result<JobHandle> handle = [&] {
              nb::gil_scoped_release free;
              return JobHandle::make(spec, delivery, mesh, index_paths);
            }();
            new (self) JobHandle(unwrap(std::move(handle)));
          },
          nb::arg("spec"), nb::arg("delivery"), nb::arg("mesh"), nb::arg("index_paths"))
      .def_prop_ro("config_digest", [](const JobHandle& job) { return job.job().config.hex(); })
      .def_prop_ro("manifest_digest",
                   [](const JobHandle& job) { return job.job().manifest.digest.hex(); })
      .def("section_digests", [](const JobHandle& job) { return section_dict(job.job().sections); })
      .def("changed_data", &changed_data, nb::arg("state"),
           "Sources whose data are not those of an encoded state, with advice or nothing.")
      .def("open", &open_engine, nb::arg("ranks"), nb::arg("options"), nb::arg("state").none(),
           nb::arg("worker_command"), nb::arg("allow_mixture") = false,
           nb::arg("allow_sources") = false, nb::arg("allow_batch") = false,
           nb::arg("journal_path") = "", nb::arg("pinning").none() = nb::none(),
           nb::arg("transforms").none() = nb::none(),
           nb::arg("told") = std::map<std::string, nb::dict>())
      .def("planner", &open_cursor, nb::arg("state").none(), nb::arg("worker_command"),
           nb::arg("call") = nb::none(), nb::arg("place") = true,
           "Plans from a state on. `call` answers for Python functions; without `place` steps stay "
           "in arrival order.")
      .def("locate", &locate, nb::arg("source"), nb::arg("pass_"), nb::arg("position"))
      .def("read_row", &read_row, nb::arg("source"), nb::arg("row"), nb::arg("worker_command"));
  bind_engine(m);
  bind_clients(m);
  m.def(
      "describe_state",
      [](nb::bytes state) {
        return state_dict(
            unwrap(protocol::decode_resume_state(std::string_view(state.c_str(), state.size()))));
      },
      nb::arg("state"), "The readable part of an encoded resume state.");
  m.def(
      "bound_state",
      [](nb::bytes state, std::string layout) {
        const std::string bytes = unwrap(protocol::bound_state(
            std::string_view(state.c_str(), state.size()), std::move(layout)));
        return nb::bytes(bytes.data(), bytes.size());
      },
      nb::arg("state"), nb::arg("layout"),
      "An encoded resume state, bound to a layout where it is inside a step.");
  m.def("combine_stream_hash", &combine_stream_hash, nb::arg("plan_chain"), nb::arg("rank_hashes"));
}

}  // namespace overlord::python
