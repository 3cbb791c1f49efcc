// LossFinder: the loss spans of a document that a step holds. What the step drew is in the posted
// metadata, what was carried into it is in the state before it. For placement that cuts segments:
// how many targets a part has, selection did not count.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "overlord/model/plan.h"
#include "overlord/model/stream_state.h"
#include "overlord/plan/mix/meta_buffer.h"

namespace overlord::plan {

class LossFinder {
 public:
  // Keeps references: for the making of one plan.
  LossFinder(const model::StreamState& before, std::span<const MetaBuffer> meta)
      : before_(before), meta_(meta) {}

  // Nothing where the step has no such document, or its source is not masked.
  std::optional<std::span<const model::LossSpan>> find(const SampleId& id) const;

 private:
  const model::StreamState& before_;
  std::span<const MetaBuffer> meta_;
};

// Targets of `part`, a run of the tokens of `whole`, which has at least that many. `finder` may be
// null where every target carries loss.
uint32_t targets_of_part(const model::Segment& whole, const model::Segment& part,
                         const LossFinder* finder);

}  // namespace overlord::plan
