// Times whole plans over made-up metadata, for `overlord bench planner`: selection, placement,
// report, views and hashes of a step, as the planner role makes them, without any data behind them.
#include <malloc.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <time.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "bound.h"
#include "overlord/plan/place/place_tree.h"
#include "overlord/plan/select/step_selector.h"

namespace nb = nanobind;

namespace overlord::bench {
namespace {

constexpr uint64_t kWindowRows = 1024;

int64_t thread_cpu_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// Bytes that are allocated and not freed, in the whole process.
int64_t heap_bytes() {
  const struct mallinfo2 told = mallinfo2();
  return static_cast<int64_t>(told.uordblks + told.hblkhd);
}

// Every source reads the same lengths, each from another place.
class MadeUpSources {
 public:
  MadeUpSources(std::span<const uint32_t> lengths, uint32_t sources)
      : lengths_(lengths),
        posted_(sources, 0),
        wanted_(sources, kWindowRows),
        samples_before_(sources, 0),
        buffers_(sources) {}

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
  void post_wanted() {
    for (SourceIndex s = 0; s < buffers_.size(); ++s) {
      while (buffers_[s].rows() < wanted_[s]) post(s);
    }
  }
  void want_more() {  // more than was thought
    for (uint64_t& rows : wanted_) rows *= 2;
  }
  // So much that the first window and the one after it find all they need: what is selected while
  // nobody looks at the clock would not be counted.
  void want_at_start(const model::JobSpec& spec) {
    const uint64_t tokens = std::accumulate(lengths_.begin(), lengths_.end(), uint64_t{0});
    const uint64_t rows = spec.step_tokens() * spec.window.steps * lengths_.size() / tokens;
    const std::vector<int64_t>& weights = spec.mixture.stages[0].weights;
    const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (size_t s = 0; s < wanted_.size(); ++s) {
      const double share = static_cast<double>(weights[s]) / all;
      wanted_[s] = static_cast<uint64_t>(static_cast<double>(rows) * share * 3) + 2 * kWindowRows;
    }
  }
  // As the planner role does: what was drawn since the last call may be drawn again, once by the
  // step or window that comes and once by the one after it.
  void want_as_drawn(const model::StreamState& state) {
    for (SourceIndex s = 0; s < buffers_.size(); ++s) {
      const uint64_t drawn = state.cursors[s].samples - samples_before_[s];
      wanted_[s] = 2 * (drawn + drawn / 4) + 2 * kWindowRows;
      samples_before_[s] = state.cursors[s].samples;
    }
  }
  uint64_t rows() const {
    uint64_t rows = 0;
    for (const plan::MetaBuffer& buffer : buffers_) rows += buffer.rows();
    return rows;
  }
  void trim(const model::StreamState& state) {
    for (SourceIndex s = 0; s < buffers_.size(); ++s) {
      buffers_[s].trim(state.cursors[s].pass, state.cursors[s].position);
    }
  }

 private:
  std::span<const uint32_t> lengths_;
  std::vector<uint64_t> posted_;
  std::vector<uint64_t> wanted_;  // rows to keep posted
  std::vector<uint64_t> samples_before_;
  std::vector<plan::MetaBuffer> buffers_;
};

// What a planner holds when a plan is made, by what frees it.
struct HeldBytes {
  int64_t metadata = 0;   // posted rows
  int64_t selection = 0;  // steps of windows, and scratch that is kept from step to step
  int64_t plan = 0;
  int64_t graph = 0;  // as long as somebody explains or draws it
};

struct Planned {
  std::vector<double> milliseconds;
  std::vector<double> step_ms, arrival_ms;
  uint64_t samples = 0;
  uint64_t carried = 0;
  uint64_t posted_rows = 0;
  HeldBytes held;
};

// Plans steps of a job one after another; destroyed part by part to see what each holds.
class MadeUpPlanner {
 public:
  MadeUpPlanner(const model::JobSpec& spec, const model::Mesh& mesh,
                const model::DeliverySpec& delivery, std::span<const uint32_t> lengths)
      : spec_(spec),
        mesh_(mesh),
        delivery_(delivery),
        rows_(spec.sources.size(), uint64_t{1} << 40),
        state_(plan::initial_state(spec)),
        views_(plan::make_views(mesh, delivery, 1, spec.strategy)),
        sources_(std::in_place, lengths, static_cast<uint32_t>(spec.sources.size())),
        selector_(std::in_place),
        placer_(std::in_place) {
    sources_->want_at_start(spec);
  }

  // `explain`: the graph behind the plan is kept.
  Status plan_next(bool explain, Planned* out) {
    plan_.reset();
    graph_.reset();
    for (;;) {
      sources_->post_wanted();
      const int64_t begin_ns = thread_cpu_ns();
      OVERLORD_TRY(plan::Selection selection,
                   selector_->step(spec_, rows_, state_, sources_->buffers()));
      if (!selection.content) {
        sources_->want_more();  // this attempt does not count
        continue;
      }
      OVERLORD_TRY(plan_,
                   plan::build_plan({spec_, mesh_, delivery_, views_, {}}, state_.next_step,
                                    std::move(selection), &*placer_, explain ? &graph_ : nullptr));
      out->milliseconds.push_back(static_cast<double>(thread_cpu_ns() - begin_ns) / 1e6);
      break;
    }
    out->samples += plan_->layers.front().segments.size();
    out->carried = std::max<uint64_t>(out->carried, plan_->state_after->carried.size());
    if (const auto& report = plan_->layers.front().report) {
      out->step_ms.push_back(static_cast<double>(report->step_ns) / 1e6);
      out->arrival_ms.push_back(static_cast<double>(report->arrival_step_ns) / 1e6);
    }
    state_ = *plan_->state_after;
    if (state_.window_step == 0) sources_->want_as_drawn(state_);
    sources_->trim(state_);
    return {};
  }

  void tell_held(Planned* out) {
    out->posted_rows = sources_->rows();
    int64_t last = heap_bytes();
    const auto freed = [&last] {
      const int64_t before = std::exchange(last, heap_bytes());
      return before - last;
    };
    graph_.reset();
    out->held.graph = freed();
    plan_.reset();
    out->held.plan = freed();
    selector_.reset();
    placer_.reset();
    out->held.selection = freed();
    sources_.reset();
    out->held.metadata = freed();
  }

 private:
  const model::JobSpec& spec_;
  const model::Mesh& mesh_;
  const model::DeliverySpec& delivery_;
  std::vector<uint64_t> rows_;
  model::StreamState state_;
  std::shared_ptr<const model::ViewTable> views_;
  std::optional<MadeUpSources> sources_;
  std::optional<plan::StepSelector> selector_;
  std::optional<plan::Placer> placer_;
  std::optional<model::Plan> plan_;
  std::shared_ptr<const plan::DGraph> graph_;
};

Result<Planned> plan_steps(const model::JobSpec& spec, const model::Mesh& mesh,
                           const model::DeliverySpec& delivery, std::span<const uint32_t> lengths,
                           uint32_t steps) {
  OVERLORD_RETURN_IF_ERROR(plan::check_fit(spec, mesh, delivery));
  OVERLORD_RETURN_IF_ERROR(plan::check_strategy(spec, mesh, delivery));
  MadeUpPlanner planner(spec, mesh, delivery, lengths);
  Planned out;
  while (out.milliseconds.size() < steps) {
    const bool is_last = out.milliseconds.size() + 1 == steps;
    OVERLORD_RETURN_IF_ERROR(planner.plan_next(is_last, &out));
  }
  planner.tell_held(&out);
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
    return plan_steps(spec, mesh, {}, values, steps);
  }();
  const Planned found = unwrap(std::move(planned));
  nb::dict out;
  out["milliseconds"] = found.milliseconds;
  out["step_ms"] = found.step_ms;
  out["arrival_step_ms"] = found.arrival_ms;
  out["samples_per_step"] = found.samples / found.milliseconds.size();
  out["carried"] = found.carried;
  out["posted_rows"] = found.posted_rows;
  nb::dict held;
  held["metadata"] = found.held.metadata;
  held["selection"] = found.held.selection;
  held["plan"] = found.held.plan;
  held["graph"] = found.held.graph;
  out["held_bytes"] = held;
  return out;
}

}  // namespace

void bind_planning(nb::module_& m) {
  m.def("planning_times", &planning_times, nb::arg("lengths"), nb::arg("sources"),
        nb::arg("context"), nb::arg("bins"), nb::arg("mesh"), nb::arg("strategy"), nb::arg("steps"),
        nb::arg("window"),
        "CPU milliseconds of whole plans over made-up metadata, one per step, and what is held.");
}

}  // namespace overlord::bench
