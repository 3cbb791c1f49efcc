#include "overlord/plan/step_selector.h"

#include <algorithm>

#include "overlord/plan/cost.h"
#include "overlord/plan/placement.h"
#include "overlord/plan/window.h"

namespace overlord::plan {
namespace {

using model::JobSpec;
using model::StreamState;

uint32_t bin_begin(const StepContent& step, uint32_t bin) {
  return bin == 0 ? 0 : step.bin_ends[bin - 1];
}

Result<std::vector<int64_t>> costs_of(const JobSpec& spec, const StepContent& step) {
  OVERLORD_TRY(const std::vector<int64_t> samples,
               segment_costs(spec.window.cost, step.segments, step.columns));
  return bin_costs(spec.window.cost, samples, step.bin_ends);
}

// A bin, by the step it was selected for.
struct Moved {
  uint32_t step = 0;
  uint32_t bin = 0;
};

StepContent step_of(const std::vector<StepContent>& selected, uint32_t index,
                    const std::vector<Moved>& bins) {
  const StepContent& own = selected[index];
  StepContent out;
  out.asked = own.asked;
  out.served.assign(own.served.size(), 0);
  out.last = own.last;
  for (const model::MetaColumn& column : own.columns) out.columns.push_back({column.name, {}});
  for (const Moved& moved : bins) {
    const StepContent& from = selected[moved.step];
    const uint32_t later = index > moved.step ? index - moved.step : 0;
    for (uint32_t s = bin_begin(from, moved.bin); s < from.bin_ends[moved.bin]; ++s) {
      const model::Segment& segment = from.segments[s];
      out.segments.push_back(segment);
      for (size_t c = 0; c < out.columns.size(); ++c) {
        out.columns[c].values.push_back(from.columns[c].values[s]);
      }
      out.tokens += segment.count;
      out.target_tokens += segment.targets;
      out.served[segment.id.source] += segment.count;
      out.waits.push_back((s < from.waits.size() ? from.waits[s] : 0) + later);
      out.max_delay = std::max(out.max_delay, out.waits.back());
    }
    out.bin_ends.push_back(static_cast<uint32_t>(out.segments.size()));
  }
  return out;
}

}  // namespace

Status rebalance_steps(const JobSpec& spec, std::vector<StepContent>* steps) {
  const auto count = static_cast<uint32_t>(steps->size());
  const uint32_t per_substep = spec.bins / spec.substeps;
  std::vector<std::vector<int64_t>> costs;
  for (const StepContent& step : *steps) {
    OVERLORD_TRY(costs.emplace_back(), costs_of(spec, step));
  }
  std::vector<std::vector<Moved>> dealt(count);
  for (uint32_t substep = 0; substep < spec.substeps; ++substep) {  // nothing crosses one
    std::vector<int64_t> part;
    for (uint32_t step = 0; step < count; ++step) {
      const auto first = costs[step].begin() + substep * per_substep;
      part.insert(part.end(), first, first + per_substep);
    }
    const WindowShape shape{per_substep, spec.window.max_delay, spec.window.width};
    OVERLORD_TRY(const RebalancedWindow window, rebalance_window(part, shape));
    for (uint32_t i = 0; i < part.size(); ++i) {
      const Moved moved{i / per_substep, substep * per_substep + i % per_substep};
      dealt[window.step_of_bin[i]].push_back(moved);
    }
  }
  std::vector<StepContent> out;
  for (uint32_t step = 0; step < count; ++step) out.push_back(step_of(*steps, step, dealt[step]));
  *steps = std::move(out);
  return {};
}

// Selects the whole window; what is missing, or nothing when block_ is ready.
Result<std::vector<MetaNeed>> StepSelector::select_block(const JobSpec& spec,
                                                         std::span<const uint64_t> source_rows,
                                                         const StreamState& start,
                                                         std::span<const MetaBuffer> meta) {
  Block block;
  block.first = start.next_step;
  block.start = block.end = start;
  while (block.steps.size() < spec.window.steps && !block.end.ended) {
    if (spec.max_steps > 0 && block.end.next_step >= spec.max_steps) break;
    OVERLORD_TRY(Selection selection, selector_.step(spec, source_rows, block.end, meta));
    if (!selection.content) return std::move(selection.needs);
    block.steps.push_back(std::move(*selection.content));
    block.end = std::move(selection.after);
  }
  OVERLORD_RETURN_IF_ERROR(rebalance_steps(spec, &block.steps));
  block_ = std::move(block);
  return std::vector<MetaNeed>();
}

Result<Selection> StepSelector::step(const JobSpec& spec, std::span<const uint64_t> source_rows,
                                     const StreamState& before, std::span<const MetaBuffer> meta,
                                     const model::StepFeedback* feedback) {
  if (spec.window.steps <= 1 || before.ended) {
    return selector_.step(spec, source_rows, before, meta, feedback);
  }
  StreamState start = before;
  start.next_step -= before.window_step;
  start.window_step = 0;
  // Whoever asks at a window's start may have changed what is in it.
  const bool known = block_ && block_->first == start.next_step && before.window_step > 0;
  if (!known) {
    OVERLORD_TRY(std::vector<MetaNeed> needs, select_block(spec, source_rows, start, meta));
    if (!needs.empty()) return Selection{std::nullopt, std::move(needs), {}};
  }
  const uint32_t index = before.window_step;
  if (index >= block_->steps.size()) {
    return Status(Code::kOutOfRange,
                  "the stream has ended before step " + std::to_string(before.next_step));
  }
  Selection selection;
  selection.content = block_->steps[index];
  const bool closes = index + 1 == block_->steps.size();
  selection.after = closes ? block_->end : block_->start;
  if (!closes) {
    selection.after.next_step = before.next_step + 1;
    selection.after.window_step = index + 1;
  }
  return selection;
}

}  // namespace overlord::plan
