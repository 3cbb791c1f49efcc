#include "made_up_planner.h"

#include <malloc.h>
#include <time.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

namespace overlord::bench {
namespace {

constexpr uint64_t kWindowRows = 1024;

// Bytes that are allocated and not freed, in the whole process.
int64_t heap_bytes() {
  const struct mallinfo2 told = mallinfo2();
  return static_cast<int64_t>(told.uordblks + told.hblkhd);
}

}  // namespace

int64_t thread_cpu_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

model::JobSpec made_up_job(uint32_t sources, uint32_t context, uint32_t bins,
                           const model::Strategy& strategy) {
  model::JobSpec spec;
  spec.context = context;
  spec.bins = bins;
  spec.strategy = strategy;
  spec.mixture.stages.push_back({0, {}});
  for (uint32_t s = 0; s < sources; ++s) {
    spec.sources.emplace_back().name = std::to_string(1'000'000 + s);
    spec.mixture.stages[0].weights.push_back(model::kWeightOne / (1 + s % 16));
  }
  return spec;
}

MadeUpSources::MadeUpSources(std::span<const uint32_t> lengths, uint32_t sources)
    : lengths_(lengths),
      posted_(sources, 0),
      wanted_(sources, kWindowRows),
      samples_before_(sources, 0),
      buffers_(sources) {}

void MadeUpSources::post(SourceIndex source) {
  auto window = std::make_shared<model::MetaWindow>();
  window->first = {source, 0, posted_[source]};
  for (uint64_t i = 0; i < kWindowRows; ++i) {
    window->tokens.push_back(lengths_[(posted_[source] + i + source * 7919) % lengths_.size()]);
  }
  posted_[source] += kWindowRows;
  buffers_[source].post(std::move(window));
}

void MadeUpSources::post_wanted() {
  for (SourceIndex s = 0; s < buffers_.size(); ++s) {
    while (buffers_[s].rows() < wanted_[s]) post(s);
  }
}

void MadeUpSources::want_more() {
  for (uint64_t& rows : wanted_) rows *= 2;
}

void MadeUpSources::want_at_start(const model::JobSpec& spec) {
  const uint64_t tokens = std::accumulate(lengths_.begin(), lengths_.end(), uint64_t{0});
  const uint64_t rows = spec.step_tokens(0) * spec.window.steps * lengths_.size() / tokens;
  const std::vector<int64_t>& weights = spec.mixture.stages[0].weights;
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (size_t s = 0; s < wanted_.size(); ++s) {
    const double share = static_cast<double>(weights[s]) / all;
    wanted_[s] = static_cast<uint64_t>(static_cast<double>(rows) * share * 3) + 2 * kWindowRows;
  }
}

void MadeUpSources::want_as_drawn(const model::StreamState& state) {
  for (SourceIndex s = 0; s < buffers_.size(); ++s) {
    const uint64_t drawn = state.cursors[s].samples - samples_before_[s];
    wanted_[s] = 2 * (drawn + drawn / 4) + 2 * kWindowRows;
    samples_before_[s] = state.cursors[s].samples;
  }
}

uint64_t MadeUpSources::rows() const {
  uint64_t rows = 0;
  for (const plan::MetaBuffer& buffer : buffers_) rows += buffer.rows();
  return rows;
}

void MadeUpSources::trim(const model::StreamState& state) {
  for (SourceIndex s = 0; s < buffers_.size(); ++s) {
    buffers_[s].trim(state.cursors[s].pass, state.cursors[s].position);
  }
}

MadeUpPlanner::MadeUpPlanner(const model::JobSpec& spec, const model::Mesh& mesh,
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

Status MadeUpPlanner::plan_next(bool explain, Planned* out) {
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

void MadeUpPlanner::tell_held(Planned* out) {
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

}  // namespace overlord::bench
