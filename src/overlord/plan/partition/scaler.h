// The online half of the AutoScaler: how many slots read each source, by what the mixture asks now
// and soon and by what reading it has cost. Pure: decide() is a function of its inputs, which are
// journalled; the same loads in the same order give the same advice.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "overlord/base/ids.h"
#include "overlord/model/job_spec.h"
#include "overlord/model/scale_inputs.h"

namespace overlord::plan {

// A source over one interval.
struct IntervalLoad {
  uint32_t slots = 1;       // that read it now
  uint32_t most_slots = 1;  // it may have
  uint32_t workers = 1;     // of every slot
  uint64_t busy_milli = 0;  // workers that were at it on average, in thousandths
  // What the mixture asks of it, in thousandths of all: now, and at most until a slot that is added
  // now has something to give.
  uint32_t share_now = 0, share_soon = 0;
  bool follows_losses = false;  // nobody knows what comes: its average counts
};

struct ScaleDecision {
  uint32_t slots = 1;   // that are to read it
  uint32_t wanted = 1;  // kLoad: what this interval alone asks for
  std::string reason;   // with what was measured
};

ScaleDecision decide(const model::ScaleInputs& inputs);

struct ScaleAdvice {
  SourceIndex source = 0;
  model::ScaleInputs inputs;
  ScaleDecision decision;
};

class Scaler {
 public:
  explicit Scaler(model::ScalingPolicy policy) : policy_(policy) {}

  // One interval later. Advice for those that are to change.
  std::vector<ScaleAdvice> next(const std::vector<IntervalLoad>& loads);

 private:
  struct Memory {
    std::deque<uint32_t> wanted;            // of the last intervals, newest last
    std::optional<uint64_t> average_share;  // moving, in thousandths
    uint32_t above = 0, below = 0;          // intervals in a row
  };
  model::ScaleInputs inputs_of(const IntervalLoad& load, size_t sources, Memory* memory) const;
  void remember(const model::ScaleInputs& inputs, const ScaleDecision& decision,
                Memory* memory) const;

  model::ScalingPolicy policy_;
  std::vector<Memory> memory_;
};

}  // namespace overlord::plan
