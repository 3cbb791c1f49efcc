// StepSelector: selection with a window of several steps. Windows tumble: `window.steps` steps are
// selected one after another, then their bins are dealt anew among these steps, by cost, none moved
// by more than `window.max_delay` steps. It reads no mesh (law 2).
//
// State inside a window is the state at its start and the step in it (`StreamState::window_step`):
// whoever resumes there selects the window again and finds the same steps. A stream that ends
// inside a window ends with a shorter one, and so does one whose steps change their bins.
//
// A window's first step needs all of its steps selected. So that this one plan does not take as
// long as all of them, every call beside it selects one step of the window that comes next, if the
// metadata is there already. Selection is a pure function of state and metadata, and the state at
// the next window's start is known by then: when a step is selected changes nothing in it.
#pragma once

#include <optional>
#include <vector>

#include "overlord/plan/select/selection.h"

namespace overlord::plan {

class StepSelector {
 public:
  // As Selector::step; with a window of one step the same. A window and a metric-driven mixture do
  // not go together: what a step of the window reports would have to be known before it.
  // One selector serves one job: `spec` and `source_rows` are the same in all calls.
  Result<Selection> step(const model::JobSpec& spec, std::span<const uint64_t> source_rows,
                         const model::StreamState& before, std::span<const MetaBuffer> meta,
                         const model::StepFeedback* feedback = nullptr);

  // Bytes of the steps that are selected and not yet asked for.
  uint64_t held_bytes() const;

 private:
  // A bin, by the step it was selected for.
  struct Moved {
    uint32_t step = 0;
    uint32_t bin = 0;
  };
  // A window as far as it is selected: where metadata is missing, selecting goes on from there.
  struct Block {
    model::StreamState start;
    model::StreamState end;  // after the last step of `selected`
    std::vector<StepContent> selected;
    std::vector<std::vector<int64_t>> costs;  // of the bins of each
    bool is_dealt = false;
    std::vector<std::vector<Moved>> dealt;  // bins of every step; empty: no bin moves
    std::vector<bool> is_taken;             // steps whose content was given away
  };

  // Without the totals of the state after it.
  Result<Selection> in_window(const model::JobSpec& spec, std::span<const uint64_t> source_rows,
                              const model::StreamState& before, std::span<const MetaBuffer> meta,
                              const model::StepFeedback* feedback);

  // What a selection reads beside the state.
  struct Inputs {
    const model::JobSpec& spec;
    std::span<const uint64_t> source_rows;
    std::span<const MetaBuffer> meta;
  };

  static bool is_complete(const model::JobSpec& spec, const Block& block);
  static Status deal(const model::JobSpec& spec, Block* block);
  static StepContent content_of(Block* block, uint32_t index);
  void enter_block(const model::StreamState& before);
  // One more step of the block; what is missing, or nothing.
  Result<std::vector<MetaNeed>> select_one(const Inputs& inputs, Block* block);
  void select_ahead(const Inputs& inputs);

  Selector selector_;
  std::optional<Block> block_;
  std::optional<Block> ahead_;  // the one after block_
};

}  // namespace overlord::plan
