#include "overlord/plan/select/step_selector.h"

#include <algorithm>

#include "overlord/base/check.h"
#include "overlord/plan/cost/cost.h"
#include "overlord/plan/select/window.h"

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

// The fields are named one by one so that a new one is not forgotten: it would not compile.
bool same_carried(const model::Carried& a, const model::Carried& b) {
  const auto& [id, first, tokens, end, drawn_step, spans, masked, columns, joined] = a;
  const auto same_span = [](const model::LossSpan& x, const model::LossSpan& y) {
    return x.first == y.first && x.count == y.count;
  };
  return id == b.id && first == b.first && tokens == b.tokens && end == b.end &&
         drawn_step == b.drawn_step && masked == b.masked && columns == b.columns &&
         joined == b.joined &&
         std::equal(spans.begin(), spans.end(), b.spans.begin(), b.spans.end(), same_span);
}

// Is this the state of a window that starts at `start`?
bool is_inside(const StreamState& start, const StreamState& state) {
  const StreamState& b = state;
  const auto& [next_step, window_step, cursors, carried, leftover_dropped, ended, controller,
               totals] = start;  // totals alone move inside a window
  return next_step + b.window_step == b.next_step && window_step == 0 && cursors == b.cursors &&
         leftover_dropped == b.leftover_dropped && ended == b.ended && controller == b.controller &&
         std::equal(carried.begin(), carried.end(), b.carried.begin(), b.carried.end(),
                    same_carried);
}

// Is so much posted that a step after `end` will probably find all it needs, if it draws what the
// `steps` steps since `start` drew on average, and a quarter more? Trying to select it without
// would be time lost.
bool probably_posted(const StreamState& start, const StreamState& end, size_t steps,
                     std::span<const uint64_t> source_rows, std::span<const MetaBuffer> meta) {
  OVERLORD_CHECK(steps > 0, "an average over some steps");
  for (size_t s = 0; s < end.cursors.size(); ++s) {
    const model::SourceCursor& cursor = end.cursors[s];
    const uint64_t drawn = (cursor.samples - start.cursors[s].samples) / steps;
    if (cursor.dry || source_rows[s] == 0) continue;
    const uint64_t row = cursor.position + drawn + drawn / 4;
    const auto pass = static_cast<uint32_t>(cursor.pass + row / source_rows[s]);
    if (meta[s].find(pass, row % source_rows[s]) == nullptr) return false;
  }
  return true;
}

uint64_t bytes_of(const StepContent& step) {
  uint64_t bytes = step.segments.capacity() * sizeof(model::Segment) +
                   (step.bin_ends.capacity() + step.waits.capacity()) * sizeof(uint32_t) +
                   (step.asked.capacity() + step.served.capacity()) * sizeof(uint64_t);
  for (const model::MetaColumn& column : step.columns) {
    bytes += column.values.capacity() * sizeof(int64_t);
  }
  return bytes;
}

}  // namespace

bool StepSelector::is_complete(const JobSpec& spec, const Block& block) {
  return block.selected.size() >= spec.window.steps || block.end.ended ||
         spec.bins_at(block.end.next_step) != spec.bins_at(block.start.next_step) ||
         (spec.max_steps > 0 && block.end.next_step >= spec.max_steps);
}

// Which bins of the window every step holds: dealt by the window's cost.
Status StepSelector::deal(const JobSpec& spec, Block* block) {
  const auto count = static_cast<uint32_t>(block->selected.size());
  OVERLORD_CHECK(block->costs.size() == count, "costs of every selected step");
  const uint32_t bins_of_step = spec.bins_at(block->start.next_step);
  const uint32_t per_substep = bins_of_step / spec.substeps;
  bool any_moves = false;
  std::vector<std::vector<Moved>> dealt(count);
  std::vector<bool> seen(size_t{count} * bins_of_step, false);
  for (uint32_t substep = 0; substep < spec.substeps; ++substep) {  // nothing crosses one
    std::vector<int64_t> part;
    for (const std::vector<int64_t>& costs : block->costs) {
      const auto first = costs.begin() + substep * per_substep;
      part.insert(part.end(), first, first + per_substep);
    }
    const WindowShape shape{per_substep, spec.window.max_delay, spec.window.width};
    OVERLORD_TRY(const RebalancedWindow window, rebalance_window(part, shape));
    for (uint32_t i = 0; i < part.size(); ++i) {
      const Moved moved{i / per_substep, substep * per_substep + i % per_substep};
      const uint32_t to = window.step_of_bin[i];
      OVERLORD_CHECK((to > moved.step ? to - moved.step : moved.step - to) <= spec.window.max_delay,
                     "no bin moves further than it may");
      const size_t bin = size_t{moved.step} * bins_of_step + moved.bin;
      OVERLORD_CHECK(!seen[bin], "every bin is dealt once");
      seen[bin] = true;
      dealt[to].push_back(moved);
      any_moves = any_moves || to != moved.step;
    }
  }
  for (const std::vector<Moved>& bins : dealt) {
    OVERLORD_CHECK(bins.size() == bins_of_step, "steps keep their number of bins");
  }
  if (any_moves) block->dealt = std::move(dealt);
  block->is_dealt = true;
  block->is_taken.assign(count, false);
  return {};
}

// Tokens, targets, served and delay are counted again where bins moved; what a step asked for stays
// as it was selected.
StepContent StepSelector::content_of(Block* block, uint32_t index) {
  OVERLORD_CHECK(index < block->selected.size() && !block->is_taken[index],
                 "a step is given away once");
  if (block->dealt.empty()) {
    block->is_taken[index] = true;
    return std::move(block->selected[index]);
  }
  const StepContent& own = block->selected[index];
  StepContent out;
  out.asked = own.asked;
  out.served.assign(own.served.size(), 0);
  out.last = own.last;
  out.segments.reserve(own.segments.size() + own.segments.size() / 8);
  out.waits.reserve(out.segments.capacity());
  out.bin_ends.reserve(own.bin_ends.size());
  for (const model::MetaColumn& column : own.columns) out.columns.push_back({column.name, {}});
  for (const Moved& moved : block->dealt[index]) {
    const StepContent& from = block->selected[moved.step];
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
  OVERLORD_CHECK(out.bin_ends.size() == own.bin_ends.size(), "a step keeps its number of bins");
  return out;
}

// Makes block_ the window that the state is in, with whatever of it is selected already.
void StepSelector::enter_block(const StreamState& before) {
  const uint32_t index = before.window_step;
  const bool is_given =
      block_ && block_->is_dealt && index < block_->is_taken.size() && block_->is_taken[index];
  if (block_ && !is_given && is_inside(block_->start, before)) return;
  if (ahead_ && is_inside(ahead_->start, before)) {
    block_ = std::move(ahead_);
  } else {
    StreamState start = before;
    start.next_step -= index;
    start.window_step = 0;
    block_ = Block{start, start, {}, {}, false, {}, {}};
  }
  ahead_.reset();
}

Result<std::vector<MetaNeed>> StepSelector::select_one(const Inputs& inputs, Block* block) {
  const auto& [spec, source_rows, meta] = inputs;
  OVERLORD_TRY(Selection selection, selector_.step(spec, source_rows, block->end, meta));
  if (!selection.content) return std::move(selection.needs);
  OVERLORD_TRY(std::vector<int64_t> costs, costs_of(spec, *selection.content));
  block->costs.push_back(std::move(costs));
  block->selected.push_back(std::move(*selection.content));
  block->end = std::move(selection.after);
  OVERLORD_CHECK(block->end.next_step == block->start.next_step + block->selected.size(),
                 "steps of a window follow each other");
  return std::vector<MetaNeed>();
}

// One step of the next window. What is missing or wrong there is for that window's steps to say.
void StepSelector::select_ahead(const Inputs& inputs) {
  if (!ahead_) ahead_ = Block{block_->end, block_->end, {}, {}, false, {}, {}};
  if (is_complete(inputs.spec, *ahead_)) return;
  const bool begun = !ahead_->selected.empty();
  const Block& known = begun ? *ahead_ : *block_;
  if (!probably_posted(known.start, known.end, known.selected.size(), inputs.source_rows,
                       inputs.meta)) {
    return;
  }
  if (!select_one(inputs, &*ahead_).ok()) ahead_.reset();
}

Result<Selection> StepSelector::step(const JobSpec& spec, std::span<const uint64_t> source_rows,
                                     const StreamState& before, std::span<const MetaBuffer> meta,
                                     const model::StepFeedback* feedback) {
  OVERLORD_TRY(Selection selection, in_window(spec, source_rows, before, meta, feedback));
  if (!selection.content) return selection;
  const StepContent& content = *selection.content;
  model::StreamTotals& totals = selection.after.totals = before.totals;
  totals.sequences += content.bin_ends.size();
  totals.tokens += content.tokens;
  for (const model::Segment& segment : content.segments) totals.samples += segment.first == 0;
  return selection;
}

Result<Selection> StepSelector::in_window(const JobSpec& spec,
                                          std::span<const uint64_t> source_rows,
                                          const StreamState& before,
                                          std::span<const MetaBuffer> meta,
                                          const model::StepFeedback* feedback) {
  if (spec.window.steps <= 1 || before.ended) {
    return selector_.step(spec, source_rows, before, meta, feedback);
  }
  const Inputs inputs{spec, source_rows, meta};
  const uint32_t index = before.window_step;
  enter_block(before);
  const bool was_complete = is_complete(spec, *block_);
  while (!is_complete(spec, *block_)) {
    OVERLORD_TRY(std::vector<MetaNeed> needs, select_one(inputs, &*block_));
    if (!needs.empty()) return Selection{std::nullopt, std::move(needs), {}};
  }
  if (index >= block_->selected.size()) {
    return Status(Code::kOutOfRange,
                  "the stream has ended before step " + std::to_string(before.next_step));
  }
  if (!block_->is_dealt) OVERLORD_RETURN_IF_ERROR(deal(spec, &*block_));
  Selection selection;
  selection.content = content_of(&*block_, index);
  const bool closes = index + 1 == block_->selected.size();
  selection.after = closes ? block_->end : block_->start;
  if (!closes) {
    selection.after.next_step = before.next_step + 1;
    selection.after.window_step = index + 1;
  }
  OVERLORD_CHECK(selection.after.next_step == before.next_step + 1,
                 "a step moves the stream by one");
  // A call that had to select for itself selects nothing ahead: about one step in every call.
  if (was_complete) select_ahead(inputs);
  return selection;
}

uint64_t StepSelector::held_bytes() const {
  uint64_t bytes = 0;
  for (const std::optional<Block>* block : {&block_, &ahead_}) {
    if (!block->has_value()) continue;
    for (const StepContent& step : (*block)->selected) bytes += bytes_of(step);
    for (const auto& costs : (*block)->costs) bytes += costs.capacity() * sizeof(int64_t);
    for (const auto& bins : (*block)->dealt) bytes += bins.capacity() * sizeof(Moved);
  }
  return bytes;
}

}  // namespace overlord::plan
