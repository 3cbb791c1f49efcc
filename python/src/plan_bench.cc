// Times whole plans over made-up metadata, for `overlord bench planner`: selection, placement,
// report, views and hashes of a step, as the planner role makes them, without any data behind them.
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <time.h>

#include <algorithm>

#include "bindings.h"
#include "errors.h"
#include "overlord/plan/place_tree.h"
#include "overlord/plan/step_selector.h"

namespace nb = nanobind;

namespace overlord::python {
namespace {

constexpr uint64_t kWindowRows = 1024;

int64_t thread_cpu_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// Every source reads the same lengths, each from another place.
class MadeUpSources {
 public:
  MadeUpSources(std::span<const uint32_t> lengths, uint32_t sources)
      : lengths_(lengths), posted_(sources, 0), buffers_(sources) {}

  std::span<const plan::MetaBuffer> buffers() const { return buffers_; }

  void post(SourceIndex source) {
    auto window = std::make_shared<model::MetaWindow>();
    window->first = {source, 0, posted_[source]};
    for (uint64_t i = 0; i < kWindowRows; ++i) {
      window->tokens.push_back(lengths_[(posted_[source] + i + source * 7919) % lengths_.size()]);
    }
    posted_[source] += kWindowRows;
    buffers_[source].post(std::move(window));
  }
  void keep_ahead(uint64_t rows) {
    for (SourceIndex s = 0; s < buffers_.size(); ++s) {
      while (buffers_[s].rows() < rows) post(s);
    }
  }
  void trim(const model::StreamState& state) {
    for (SourceIndex s = 0; s < buffers_.size(); ++s) {
      buffers_[s].trim(state.cursors[s].pass, state.cursors[s].position);
    }
  }

 private:
  std::span<const uint32_t> lengths_;
  std::vector<uint64_t> posted_;
  std::vector<plan::MetaBuffer> buffers_;
};

struct Planned {
  std::vector<double> milliseconds;
  std::vector<double> step_ms, arrival_ms;
  uint64_t samples = 0;
  uint64_t carried = 0;
};

Result<Planned> plan_steps(model::JobSpec spec, const model::Mesh& mesh,
                           const model::DeliverySpec& delivery, std::span<const uint32_t> lengths,
                           uint32_t steps) {
  OVERLORD_RETURN_IF_ERROR(plan::check_fit(spec, mesh, delivery));
  OVERLORD_RETURN_IF_ERROR(plan::check_strategy(spec, mesh, delivery));
  const std::vector<uint64_t> rows(spec.sources.size(), uint64_t{1} << 40);
  MadeUpSources sources(lengths, static_cast<uint32_t>(spec.sources.size()));
  model::StreamState state = plan::initial_state(spec);
  const auto views = plan::make_views(mesh, delivery, 1, spec.strategy);
  plan::StepSelector selector;
  plan::Placer placer;
  Planned out;
  uint64_t ahead = kWindowRows;
  while (out.milliseconds.size() < steps) {
    sources.keep_ahead(ahead);
    const int64_t begin_ns = thread_cpu_ns();
    OVERLORD_TRY(plan::Selection selection, selector.step(spec, rows, state, sources.buffers()));
    if (!selection.content) {
      ahead *= 2;  // more than was thought; this attempt does not count
      continue;
    }
    OVERLORD_TRY(const model::Plan plan,
                 plan::build_plan({spec, mesh, delivery, views, {}}, state.next_step,
                                  std::move(selection), &placer));
    out.milliseconds.push_back(static_cast<double>(thread_cpu_ns() - begin_ns) / 1e6);
    out.samples += plan.layers.front().segments.size();
    out.carried = std::max<uint64_t>(out.carried, plan.state_after->carried.size());
    if (const auto& report = plan.layers.front().report) {
      out.step_ms.push_back(static_cast<double>(report->step_ns) / 1e6);
      out.arrival_ms.push_back(static_cast<double>(report->arrival_step_ns) / 1e6);
    }
    state = *plan.state_after;
    sources.trim(state);
  }
  return out;
}

nb::dict planning_times(nb::ndarray<const uint32_t, nb::ndim<1>, nb::c_contig> lengths,
                        uint32_t sources, uint32_t context, uint32_t bins, const model::Mesh& mesh,
                        const model::Strategy& strategy, uint32_t steps, uint32_t window) {
  model::JobSpec spec;
  spec.context = context;
  spec.bins = bins;
  spec.strategy = strategy;
  spec.window = {window, window, plan::bucket_count(mesh), strategy.cost};
  spec.mixture.stages.push_back({0, {}});
  for (uint32_t s = 0; s < sources; ++s) {
    spec.sources.emplace_back().name = std::to_string(1'000'000 + s);
    spec.mixture.stages[0].weights.push_back(model::kWeightOne / (1 + s % 16));
  }
  const std::span<const uint32_t> values(lengths.data(), lengths.shape(0));
  Result<Planned> planned = [&] {
    nb::gil_scoped_release free;
    return plan_steps(std::move(spec), mesh, {}, values, steps);
  }();
  const Planned found = unwrap(std::move(planned));
  nb::dict out;
  out["milliseconds"] = found.milliseconds;
  out["step_ms"] = found.step_ms;
  out["arrival_step_ms"] = found.arrival_ms;
  out["samples_per_step"] = found.samples / found.milliseconds.size();
  out["carried"] = found.carried;
  return out;
}

}  // namespace

void bind_plan_bench(nb::module_& m) {
  m.def("planning_times", &planning_times, nb::arg("lengths"), nb::arg("sources"),
        nb::arg("context"), nb::arg("bins"), nb::arg("mesh"), nb::arg("strategy"), nb::arg("steps"),
        nb::arg("window"), "CPU milliseconds of whole plans over made-up metadata, one per step.");
}

}  // namespace overlord::python
