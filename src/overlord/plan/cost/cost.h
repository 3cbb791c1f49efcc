// Costs of samples and bins under a CostModel: nanoseconds and bytes, exact on every CPU.
//
// Sums are kept in 128 bits over all terms and rounded once, half up, to whole nanoseconds and
// bytes. What does not fit 63 bits is an error that names the row; nothing wraps or saturates.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/model/cost_model.h"
#include "overlord/model/plan.h"
#include "overlord/model/sample_meta.h"

namespace overlord::plan {

// One metadata column: a length per sample.
struct LengthColumn {
  std::string_view name;
  std::span<const int64_t> lengths;
};

// Nanoseconds of every row. Columns the model does not name are ignored; one that it names and that
// is not there, columns of unequal length and lengths outside [0, 2^32) are errors.
Result<std::vector<int64_t>> evaluate(const model::CostModel& model,
                                      std::span<const LengthColumn> columns);
// Bytes of every row.
Result<std::vector<int64_t>> evaluate_bytes(const model::CostModel& model,
                                            std::span<const LengthColumn> columns);

// Costs of segments under a model that reads their tokens and their metadata columns.
Result<std::vector<int64_t>> segment_costs(const model::CostModel& model,
                                           std::span<const model::Segment> segments,
                                           std::span<const model::MetaColumn> columns);

// What a bin with samples of these costs takes: their sum and the model's cost per bin; 0 if empty.
Result<int64_t> bin_cost(const model::CostModel& model, std::span<const int64_t> sample_costs);
// The same for bins that lie one after another: bin b ends before sample bin_ends[b].
Result<std::vector<int64_t>> bin_costs(const model::CostModel& model,
                                       std::span<const int64_t> sample_costs,
                                       std::span<const uint32_t> bin_ends);

// One nanosecond and one byte per token: balance counts tokens, memory limits are in tokens.
model::CostModel tokens_cost(std::string_view column = "tokens");

}  // namespace overlord::plan
