#include "overlord/model/cost_model.h"

#include <array>
#include <utility>

namespace overlord::model {
namespace {

constexpr std::array<std::string_view, 5> kKindNames = {"tokens", "quadratic", "transformer", "vit",
                                                        "sum"};
constexpr uint8_t kFormat = 1;
constexpr size_t kMinTermBytes = 6;  // an empty name and five varints

Status check_coefficient(int64_t value, std::string_view name, const std::string& where) {
  if (value >= 0) return {};
  return invalid_argument("cost model: a coefficient is negative: " + where + std::string(name) +
                          " is " + std::to_string(value));
}

Status check_term(const CostTerm& term) {
  if (term.column.empty()) return invalid_argument("cost model: a term names no column");
  const std::string where = "column '" + term.column + "', ";
  OVERLORD_RETURN_IF_ERROR(check_coefficient(term.constant_q32, "constant_q32", where));
  OVERLORD_RETURN_IF_ERROR(check_coefficient(term.linear_q32, "linear_q32", where));
  OVERLORD_RETURN_IF_ERROR(check_coefficient(term.quadratic_q32, "quadratic_q32", where));
  OVERLORD_RETURN_IF_ERROR(check_coefficient(term.constant_bytes_q16, "constant_bytes_q16", where));
  return check_coefficient(term.linear_bytes_q16, "linear_bytes_q16", where);
}

}  // namespace

std::string_view cost_kind_name(CostKind kind) { return kKindNames[static_cast<size_t>(kind)]; }

Result<CostKind> cost_kind_of(std::string_view name) {
  for (size_t i = 0; i < kKindNames.size(); ++i) {
    if (kKindNames[i] == name) return static_cast<CostKind>(i);
  }
  return invalid_argument(
      "cost model: unknown kind; known are tokens, quadratic, transformer, vit, sum; got '" +
      std::string(name) + "'");
}

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
    out->text(term.column);
    out->zigzag(term.constant_q32);
    out->zigzag(term.linear_q32);
    out->zigzag(term.quadratic_q32);
    out->zigzag(term.constant_bytes_q16);
    out->zigzag(term.linear_bytes_q16);
  }
}

Result<CostModel> read_cost_model(ByteReader* in) {
  const uint8_t format = in->u8();
  const uint8_t kind = in->u8();
  CostModel model;
  model.bin_q32 = in->zigzag();
  model.terms.resize(in->count(kMinTermBytes));
  for (CostTerm& term : model.terms) {
    term.column = in->text();
    term.constant_q32 = in->zigzag();
    term.linear_q32 = in->zigzag();
    term.quadratic_q32 = in->zigzag();
    term.constant_bytes_q16 = in->zigzag();
    term.linear_bytes_q16 = in->zigzag();
  }
  OVERLORD_RETURN_IF_ERROR(in->status("cost model", /*whole=*/false));
  if (format != kFormat) {
    return Status(Code::kVersionMismatch, "cost model: this version reads format " +
                                              std::to_string(kFormat) + "; got " +
                                              std::to_string(format));
  }
  if (kind >= kKindNames.size()) {
    return bad_data("cost model: unknown kind " + std::to_string(kind));
  }
  model.kind = static_cast<CostKind>(kind);
  OVERLORD_RETURN_IF_ERROR(check_cost_model(model));
  return model;
}

Digest cost_model_digest(const CostModel& model) {
  ByteWriter out;
  write_cost_model(model, &out);
  return digest_of(out.bytes().data(), out.size());
}

}  // namespace overlord::model
