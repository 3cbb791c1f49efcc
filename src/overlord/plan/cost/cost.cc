#include "overlord/plan/cost/cost.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "overlord/base/check.h"
#include "overlord/base/fixed_point.h"

namespace overlord::plan {
namespace {

using model::CostModel;
using model::CostTerm;

constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();

// One term of one unit (nanoseconds or bytes) over its column.
struct Polynomial {
  const LengthColumn* column = nullptr;
  uint64_t constant = 0;
  uint64_t linear = 0;
  uint64_t quadratic = 0;
  uint64_t safe_length = 0;  // up to it no row needs a closer look at this term

  // Below 2^127 for lengths below 2^32; wraps for others.
  Uint128 at(uint64_t length) const {
    const Uint128 slope = Uint128{quadratic} * length + linear;
    return length == 0 ? 0 : slope * length + constant;
  }
  // The largest length that costs no more than `most`. Costs never fall with length.
  void set_safe_length(Uint128 most) {
    uint64_t above = uint64_t{model::kMaxCostLength} + 1;
    safe_length = 0;
    while (above - safe_length > 1) {
      const uint64_t middle = (safe_length + above) / 2;
      (at(middle) <= most ? safe_length : above) = middle;
    }
    OVERLORD_CHECK(at(safe_length) <= most, "a safe length needs no closer look");
  }
};

const LengthColumn* find_column(std::span<const LengthColumn> columns, std::string_view name) {
  for (const LengthColumn& column : columns) {
    if (column.name == name) return &column;
  }
  return nullptr;
}

Status check_columns(const CostModel& model, std::span<const LengthColumn> columns) {
  OVERLORD_RETURN_IF_ERROR(model::check_cost_model(model));
  for (const CostTerm& term : model.terms) {
    if (find_column(columns, term.column)) continue;
    std::string known;
    for (const LengthColumn& column : columns) {
      known += (known.empty() ? "'" : ", '") + std::string(column.name) + "'";
    }
    return invalid_argument("cost: the model needs a metadata column that is not there: '" +
                            term.column + "'; there are " + (known.empty() ? "none" : known));
  }
  for (const LengthColumn& column : columns) {
    if (column.lengths.size() != columns.front().lengths.size()) {
      return invalid_argument("cost: columns of unequal length: '" + std::string(column.name) +
                              "' has " + std::to_string(column.lengths.size()) + " rows, '" +
                              std::string(columns.front().name) + "' has " +
                              std::to_string(columns.front().lengths.size()));
    }
  }
  return {};
}

Status row_error(std::span<const Polynomial> terms, size_t row, std::string_view unit) {
  std::string lengths;
  for (const Polynomial& term : terms) {
    const int64_t length = term.column->lengths[row];
    const std::string place = "column '" + std::string(term.column->name) + "', row " +
                              std::to_string(row) + ": length " + std::to_string(length);
    if (length < 0) return invalid_argument("cost: a length is negative: " + place);
    if (length > model::kMaxCostLength) {
      return invalid_argument("cost: a length is 2^32 or more: " + place);
    }
    lengths += (lengths.empty() ? "" : ", ") + place;
  }
  return invalid_argument("cost: a sample's " + std::string(unit) + " do not fit 63 bits: " +
                          lengths + "; the model's coefficients are too large");
}

// The sum of a row with every check, or nothing.
std::optional<Uint128> checked_sum(std::span<const Polynomial> terms, size_t row, Uint128 most) {
  Uint128 sum = 0;  // at most `most` before a term below 2^127 is added: never wraps
  for (const Polynomial& term : terms) {
    const auto length = static_cast<uint64_t>(term.column->lengths[row]);
    if (length > static_cast<uint64_t>(model::kMaxCostLength)) return std::nullopt;
    sum += term.at(length);
    if (sum > most) return std::nullopt;
  }
  return sum;
}

Result<std::vector<int64_t>> evaluate_terms(std::span<Polynomial> terms, size_t rows,
                                            int fraction_bits, std::string_view unit) {
  OVERLORD_CHECK(fraction_bits > 0 && !terms.empty(), "a model has terms");
  const Uint128 half = Uint128{1} << (fraction_bits - 1);
  // The largest sum that still rounds to 63 bits.
  const Uint128 most = (Uint128{static_cast<uint64_t>(kMaxInt64)} << fraction_bits) + (half - 1);
  for (Polynomial& term : terms) term.set_safe_length(most / terms.size());
  std::vector<int64_t> out(rows);
  for (size_t row = 0; row < rows; ++row) {  // so that the first bad row is the one that is named
    Uint128 sum = 0;
    bool safe = true;
    for (const Polynomial& term : terms) {
      const auto length = static_cast<uint64_t>(term.column->lengths[row]);
      safe = safe && length <= term.safe_length;
      sum += term.at(length);
    }
    if (!safe) {
      const std::optional<Uint128> found = checked_sum(terms, row, most);
      if (!found) return row_error(terms, row, unit);
      sum = *found;
    }
    OVERLORD_CHECK(sum <= most, "a cost fits 63 bits");
    out[row] = static_cast<int64_t>((sum + half) >> fraction_bits);
  }
  return out;
}

int64_t bin_ns(const CostModel& model) {
  const Int128 half = Int128{1} << (model::kCostBits - 1);
  return static_cast<int64_t>((Int128{model.bin_q32} + half) >> model::kCostBits);
}

}  // namespace

Result<std::vector<int64_t>> evaluate(const CostModel& model,
                                      std::span<const LengthColumn> columns) {
  OVERLORD_RETURN_IF_ERROR(check_columns(model, columns));
  std::vector<Polynomial> terms;
  for (const CostTerm& term : model.terms) {
    terms.push_back({find_column(columns, term.column), static_cast<uint64_t>(term.constant_q32),
                     static_cast<uint64_t>(term.linear_q32),
                     static_cast<uint64_t>(term.quadratic_q32)});
  }
  return evaluate_terms(terms, columns.front().lengths.size(), model::kCostBits, "nanoseconds");
}

Result<std::vector<int64_t>> evaluate_bytes(const CostModel& model,
                                            std::span<const LengthColumn> columns) {
  OVERLORD_RETURN_IF_ERROR(check_columns(model, columns));
  std::vector<Polynomial> terms;
  for (const CostTerm& term : model.terms) {
    terms.push_back({find_column(columns, term.column),
                     static_cast<uint64_t>(term.constant_bytes_q16),
                     static_cast<uint64_t>(term.linear_bytes_q16), 0});
  }
  return evaluate_terms(terms, columns.front().lengths.size(), model::kBytesBits, "bytes");
}

Result<std::vector<int64_t>> segment_costs(const model::CostModel& model,
                                           std::span<const model::Segment> segments,
                                           std::span<const model::MetaColumn> columns) {
  std::vector<int64_t> tokens(segments.size());
  for (size_t i = 0; i < segments.size(); ++i) tokens[i] = segments[i].count;
  std::vector<LengthColumn> lengths{{"tokens", tokens}};
  for (const model::MetaColumn& column : columns) lengths.push_back({column.name, column.values});
  return evaluate(model, lengths);
}

Result<int64_t> bin_cost(const CostModel& model, std::span<const int64_t> sample_costs) {
  if (sample_costs.empty()) return int64_t{0};
  Int128 sum = bin_ns(model);
  for (const int64_t cost : sample_costs) sum += cost;
  if (sum > kMaxInt64) {
    return invalid_argument("cost: a bin's nanoseconds do not fit 63 bits; it has " +
                            std::to_string(sample_costs.size()) + " samples");
  }
  OVERLORD_CHECK(sum >= 0, "costs are not negative");
  return static_cast<int64_t>(sum);
}

Result<std::vector<int64_t>> bin_costs(const CostModel& model,
                                       std::span<const int64_t> sample_costs,
                                       std::span<const uint32_t> bin_ends) {
  std::vector<int64_t> out;
  out.reserve(bin_ends.size());
  size_t begin = 0;
  for (const uint32_t end : bin_ends) {
    if (end < begin || end > sample_costs.size()) {
      return invalid_argument("cost: bin ends must rise and stay within " +
                              std::to_string(sample_costs.size()) + " samples; got " +
                              std::to_string(end) + " after " + std::to_string(begin));
    }
    OVERLORD_TRY(const int64_t cost, bin_cost(model, sample_costs.subspan(begin, end - begin)));
    out.push_back(cost);
    begin = end;
  }
  return out;
}

CostModel tokens_cost(std::string_view column) {
  CostTerm term{std::string(column)};
  term.linear_q32 = int64_t{1} << model::kCostBits;
  term.linear_bytes_q16 = int64_t{1} << model::kBytesBits;
  return {model::CostKind::kTokens, 0, {std::move(term)}};
}

}  // namespace overlord::plan
