// StepSelector: selection with a window of several steps. Windows tumble: `window.steps` steps are
// selected one after another, then their bins are dealt anew among these steps, by cost, none moved
// by more than `window.max_delay` steps. It reads no mesh (law 2).
//
// State inside a window is the state at its start and the step in it (`StreamState::window_step`):
// whoever resumes there selects the window again and finds the same steps. A stream that ends
// inside a window ends with a shorter one.
#pragma once

#include <optional>
#include <vector>

#include "overlord/plan/selection.h"

namespace overlord::plan {

class StepSelector {
 public:
  // As Selector::step; with a window of one step the same. A window and a metric-driven mixture do
  // not go together: what a step of the window reports would have to be known before it.
  Result<Selection> step(const model::JobSpec& spec, std::span<const uint64_t> source_rows,
                         const model::StreamState& before, std::span<const MetaBuffer> meta,
                         const model::StepFeedback* feedback = nullptr);

 private:
  struct Block {
    StepIndex first = 0;
    std::vector<StepContent> steps;
    model::StreamState start;
    model::StreamState end;
  };

  Result<std::vector<MetaNeed>> select_block(const model::JobSpec& spec,
                                             std::span<const uint64_t> source_rows,
                                             const model::StreamState& start,
                                             std::span<const MetaBuffer> meta);

  Selector selector_;
  std::optional<Block> block_;
};

// Deals the bins of the steps anew by the window's cost. Tokens, targets, served and delay of every
// step are counted again; what a step asked for stays as it was selected.
Status rebalance_steps(const model::JobSpec& spec, std::vector<StepContent>* steps);

}  // namespace overlord::plan
