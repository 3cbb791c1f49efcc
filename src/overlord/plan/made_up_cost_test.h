// Cost models for tests, by their coefficients in fixed point; one byte per token.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>

#include "overlord/plan/cost/cost.h"

namespace overlord::plan {

inline model::CostModel quadratic_cost(std::string_view column, int64_t constant_q32,
                                       int64_t linear_q32, int64_t quadratic_q32) {
  model::CostModel out = tokens_cost(column);
  out.kind = model::CostKind::kQuadratic;
  out.terms[0].constant_q32 = constant_q32;
  out.terms[0].linear_q32 = linear_q32;
  out.terms[0].quadratic_q32 = quadratic_q32;
  return out;
}

// Of models over different columns.
inline model::CostModel sum_cost(std::span<const model::CostModel> parts) {
  model::CostModel out;
  out.kind = model::CostKind::kSum;
  for (const model::CostModel& part : parts) {
    out.bin_q32 += part.bin_q32;
    out.terms.insert(out.terms.end(), part.terms.begin(), part.terms.end());
  }
  std::ranges::sort(out.terms, {}, &model::CostTerm::column);
  return out;
}

}  // namespace overlord::plan
