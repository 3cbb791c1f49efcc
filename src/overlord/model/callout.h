// Call-outs: what a user's own function is asked while a step is planned, and what it answered. A
// function is known by name and version, which stand for it in the strategy and its digest; its
// answer is whole numbers, logged before it counts (laws 6 and 10).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/fields.h"
#include "overlord/base/ids.h"
#include "overlord/model/sample_meta.h"

namespace overlord::model {

// Costs of a step's samples; seats of its bins, given their costs; seats of its bins, given all
// that is known of its samples.
enum class CalloutKind : uint8_t { kCost = 1, kBalance = 2, kPlan = 3 };

std::string_view callout_kind_name(CalloutKind kind);

struct CalloutFunction {
  std::string name;  // empty: none is declared
  std::string version;
  int64_t scale = 1;  // of a cost: an answer times this is nanoseconds

  bool declared() const { return !name.empty(); }
  friend bool operator==(const CalloutFunction&, const CalloutFunction&) = default;

  OVERLORD_FIELDS(name, version, scale)
};

// Where bins can go: microbatch m of a consumer belongs to substep m / (microbatches / substeps).
struct SeatShape {
  uint32_t consumers = 1;
  uint32_t microbatches = 1;     // of each consumer
  uint32_t microbatch_size = 1;  // most bins of a microbatch
  uint32_t substeps = 1;         // each has equally many bins, one after the other
  uint32_t stages = 1;           // of the pipeline

  OVERLORD_FIELDS(consumers, microbatches, microbatch_size, substeps, stages)
};

struct CalloutRequest {
  CalloutKind kind = CalloutKind::kCost;
  StepIndex step = 0;
  CalloutFunction function;
  std::vector<SampleId> samples;      // one per segment of the step, in bin order
  std::vector<MetaColumn> columns;    // "tokens", "source", then those of the job; one value each
  std::vector<uint32_t> bin_ends;     // end of bin b's samples
  std::vector<int64_t> sample_costs;  // empty: the strategy has no cost, or it is what is asked
  std::vector<int64_t> bin_costs;     // the same
  SeatShape seats;

  // Are columns, bins and costs of these samples?
  bool fits() const;

  OVERLORD_FIELDS(kind, step, function, samples, columns, bin_ends, sample_costs, bin_costs, seats)
};

// What was answered of a step and has been checked. A seat is consumer * microbatches + microbatch.
struct CalloutAnswers {
  std::optional<std::vector<int64_t>> costs;  // one per sample, nanoseconds
  std::optional<std::vector<int64_t>> seats;  // one per bin

  void keep(CalloutKind kind, std::vector<int64_t> values) {
    (kind == CalloutKind::kCost ? costs : seats) = std::move(values);
  }
};

}  // namespace overlord::model
