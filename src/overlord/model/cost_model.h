// CostModel: what a sample is expected to cost its consumer, as a value that can be stored
// and compared. Every kind of model (tokens, quadratic, a transformer's shape, a sum of
// several) is reduced to one polynomial per metadata column with integer coefficients, so that a
// plan is the same on every CPU and a strategy holds the very numbers it was planned with.
//
// For a sample with length s > 0 in a term's column the term adds
//   constant + linear * s + quadratic * s^2   nanoseconds and
//   constant + linear * s                     bytes;
// a sample that has nothing in the column (s = 0: no image) adds nothing, not even the constant.
// Besides, every bin that is not empty costs `bin`: what a microbatch takes before its first token.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/bytes.h"
#include "overlord/base/fields.h"
#include "overlord/base/hash.h"
#include "overlord/base/status.h"

namespace overlord::model {

inline constexpr int kCostBits = 32;   // fraction bits of a coefficient in nanoseconds ("q32")
inline constexpr int kBytesBits = 16;  // fraction bits of a coefficient in bytes ("q16")
inline constexpr int64_t kMaxCostLength = 0xffffffff;  // s^2 times any coefficient is below 2^127
inline constexpr size_t kMaxCostTerms = 64;

// What the model was built from; for people. The coefficients alone decide.
enum class CostKind : uint8_t { kTokens, kQuadratic, kTransformer, kVit, kSum };

// Coefficients are >= 0, so a longer sample never costs less.
struct CostTerm {
  std::string column;
  int64_t constant_q32 = 0;
  int64_t linear_q32 = 0;
  int64_t quadratic_q32 = 0;
  int64_t constant_bytes_q16 = 0;
  int64_t linear_bytes_q16 = 0;

  bool operator==(const CostTerm&) const = default;

  OVERLORD_FIELDS(column, constant_q32, linear_q32, quadratic_q32, constant_bytes_q16,
                  linear_bytes_q16)
};

struct CostModel {
  CostKind kind = CostKind::kTokens;
  int64_t bin_q32 = 0;
  std::vector<CostTerm> terms;  // sorted by column, each column once: equal models are equal values

  bool operator==(const CostModel&) const = default;

  OVERLORD_FIELDS(kind, bin_q32, terms)
};

Status check_cost_model(const CostModel& model);
void write_cost_model(const CostModel& model, ByteWriter* out);  // for digests

}  // namespace overlord::model
