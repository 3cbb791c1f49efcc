#include "overlord/model/cost_model.h"

#include <string_view>
#include <type_traits>

namespace overlord::model {
namespace {

constexpr uint8_t kFormat = 1;

Status check_coefficient(int64_t value, std::string_view name, const std::string& where) {
  if (value >= 0) return {};
  return invalid_argument("cost model: a coefficient is negative: " + where + std::string(name) +
                          " is " + std::to_string(value));
}

Status check_term(const CostTerm& term) {
  if (term.column.empty()) return invalid_argument("cost model: a term names no column");
  Status status;
  for_each_field(term, [&](std::string_view name, const auto& value) {
    if constexpr (std::is_same_v<decltype(value), const int64_t&>) {
      if (status.ok()) status = check_coefficient(value, name, "column '" + term.column + "', ");
    }
  });
  return status;
}

}  // namespace

Status check_cost_model(const CostModel& model) {
  if (model.terms.empty()) return invalid_argument("cost model: there is no term");
  if (model.terms.size() > kMaxCostTerms) {
    return invalid_argument("cost model: more than " + std::to_string(kMaxCostTerms) +
                            " terms; got " + std::to_string(model.terms.size()));
  }
  OVERLORD_RETURN_IF_ERROR(check_coefficient(model.bin_q32, "bin_q32", ""));
  for (size_t i = 0; i < model.terms.size(); ++i) {
    OVERLORD_RETURN_IF_ERROR(check_term(model.terms[i]));
    if (i > 0 && model.terms[i - 1].column >= model.terms[i].column) {
      return invalid_argument(
          "cost model: terms must be sorted by column, each column once; after '" +
          model.terms[i - 1].column + "' comes '" + model.terms[i].column + "'");
    }
  }
  return {};
}

void write_cost_model(const CostModel& model, ByteWriter* out) {
  out->u8(kFormat);
  out->u8(static_cast<uint8_t>(model.kind));
  out->zigzag(model.bin_q32);
  out->varint(model.terms.size());
  for (const CostTerm& term : model.terms) {
    for_each_field(term, [&](std::string_view, const auto& value) {
      if constexpr (std::is_same_v<decltype(value), const int64_t&>) {
        out->zigzag(value);
      } else {
        out->text(value);
      }
    });
  }
}

}  // namespace overlord::model
