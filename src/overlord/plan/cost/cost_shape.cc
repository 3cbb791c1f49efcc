#include "overlord/plan/cost/cost_shape.h"

#include <limits>
#include <optional>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/base/fixed_point.h"

namespace overlord::plan {
namespace {

using model::CostModel;
using model::CostTerm;

constexpr int64_t kMaxDimension = int64_t{1} << 30;
constexpr int64_t kNsPerSecond = 1'000'000'000;
constexpr int64_t kTrainingPasses = 3;  // forward once, backward twice as much
constexpr int64_t kBytesPerValue = 2;   // bf16

// Products and sums in 128 bits that remember whether they ever left them.
class Checked {
 public:
  Checked(Int128 value) : value_(value) {}  // NOLINT
  Checked operator*(const Checked& other) const {
    Checked out(0);
    out.fits_ = !__builtin_mul_overflow(value_, other.value_, &out.value_) && fits_ && other.fits_;
    return out;
  }
  Checked operator+(const Checked& other) const {
    Checked out(0);
    out.fits_ = !__builtin_add_overflow(value_, other.value_, &out.value_) && fits_ && other.fits_;
    return out;
  }
  // this / divisor rounded half up, if everything fits 63 bits.
  std::optional<int64_t> divided_by(Int128 divisor) const {
    if (!fits_) return std::nullopt;
    OVERLORD_CHECK(divisor > 0 && value_ >= 0, "operations over a speed");
    const Int128 quotient = value_ / divisor;
    const Int128 rest = value_ % divisor;
    const Int128 rounded = quotient + (rest >= divisor - rest ? 1 : 0);
    if (!fits_int64(rounded)) return std::nullopt;
    return static_cast<int64_t>(rounded);
  }

 private:
  Int128 value_;
  bool fits_ = true;
};

Status check_dimension(std::string_view name, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return {};
  return invalid_argument("cost: " + std::string(name) + " must be between " +
                          std::to_string(least) + " and " + std::to_string(most) + "; got " +
                          std::to_string(value));
}

Status check_divides(std::string_view part, int64_t divisor, std::string_view whole,
                     int64_t value) {
  OVERLORD_CHECK(divisor > 0, "dimensions are checked one by one first");
  if (value % divisor == 0) return {};
  return invalid_argument("cost: " + std::string(part) + " must divide " + std::string(whole) +
                          "; got " + std::string(part) + " " + std::to_string(divisor) + " and " +
                          std::string(whole) + " " + std::to_string(value));
}

Status check_shape(const TransformerShape& shape, int64_t kv_heads) {
  const auto at_least = [](std::string_view name, int64_t value, int64_t least) {
    return check_dimension(name, value, least, kMaxDimension);
  };
  OVERLORD_RETURN_IF_ERROR(at_least("hidden", shape.hidden, 1));
  OVERLORD_RETURN_IF_ERROR(at_least("layers", shape.layers, 1));
  OVERLORD_RETURN_IF_ERROR(at_least("heads", shape.heads, 1));
  OVERLORD_RETURN_IF_ERROR(at_least("kv_heads", shape.kv_heads, 0));
  OVERLORD_RETURN_IF_ERROR(at_least("ffn", shape.ffn, 1));
  OVERLORD_RETURN_IF_ERROR(at_least("vocabulary", shape.vocabulary, 0));
  OVERLORD_RETURN_IF_ERROR(at_least("experts", shape.experts, 1));
  OVERLORD_RETURN_IF_ERROR(
      check_dimension("experts_active", shape.experts_active, 1, shape.experts));
  OVERLORD_RETURN_IF_ERROR(at_least("tp", shape.tp, 1));
  OVERLORD_RETURN_IF_ERROR(check_dimension("pp", shape.pp, 1, shape.layers));
  const int64_t most = std::numeric_limits<int64_t>::max();
  OVERLORD_RETURN_IF_ERROR(check_dimension("flops_per_second", shape.flops_per_second, 1, most));
  OVERLORD_RETURN_IF_ERROR(
      check_dimension("attention_flops_per_second", shape.attention_flops_per_second, 1, most));
  OVERLORD_RETURN_IF_ERROR(check_divides("heads", shape.heads, "hidden", shape.hidden));
  return check_divides("kv_heads", kv_heads, "heads", shape.heads);
}

std::optional<int64_t> flops_q32(const Checked& flops, int64_t flops_per_second, int64_t tp) {
  const Checked scaled = flops * kNsPerSecond * (Int128{1} << model::kCostBits);
  return scaled.divided_by(Int128{flops_per_second} * tp);
}

}  // namespace

Result<CostModel> transformer_cost(const TransformerShape& shape) {
  const int64_t kv_heads = shape.kv_heads == 0 ? shape.heads : shape.kv_heads;
  OVERLORD_RETURN_IF_ERROR(check_shape(shape, kv_heads));
  const Checked hidden = shape.hidden;
  const Checked kv_width = Checked(shape.hidden / shape.heads) * kv_heads;
  const Checked ffn_width = Checked(shape.ffn) * shape.experts_active;
  const Checked layers = ceil_div(shape.layers, shape.pp);

  // Weights that one token meets: queries and output, keys and values, feed-forward, router, head.
  const Checked router = shape.experts > 1 ? hidden * shape.experts : Checked(0);
  const Checked layer_weights = hidden * hidden * 2 + hidden * kv_width * 2 +
                                hidden * ffn_width * (shape.gated ? 3 : 2) + router;
  const Checked weights = layers * layer_weights + hidden * shape.vocabulary;
  const Checked pair_flops = layers * hidden * (shape.causal ? 2 : 4);
  // Residual and norm output before each half, queries, attention's output; then keys and values;
  // then what the feed-forward part keeps. Logits stay as bf16 and as fp32.
  const Checked layer_values = hidden * 6 + kv_width * 2 + ffn_width * (shape.gated ? 3 : 2);
  const Checked bytes = layers * layer_values * kBytesPerValue + Checked(shape.vocabulary) * 6;

  const auto linear = flops_q32(weights * 2 * kTrainingPasses, shape.flops_per_second, shape.tp);
  const auto quadratic =
      flops_q32(pair_flops * kTrainingPasses, shape.attention_flops_per_second, shape.tp);
  const auto memory = (bytes * (Int128{1} << model::kBytesBits)).divided_by(shape.tp);
  if (!linear || !quadratic || !memory) {
    return invalid_argument("cost: a network of this shape costs more per token than 63 bits hold");
  }
  CostTerm term{shape.column, 0, *linear, *quadratic, 0, *memory};
  CostModel out{model::CostKind::kTransformer, 0, {std::move(term)}};
  OVERLORD_RETURN_IF_ERROR(model::check_cost_model(out));
  return out;
}

Result<CostModel> vit_cost(const VitShape& shape) {
  TransformerShape layers;
  layers.hidden = shape.hidden;
  layers.layers = shape.layers;
  layers.heads = shape.heads;
  layers.ffn = shape.ffn;
  layers.gated = false;
  layers.causal = false;
  layers.tp = shape.tp;
  layers.flops_per_second = shape.flops_per_second;
  layers.attention_flops_per_second = shape.attention_flops_per_second;
  layers.column = shape.column;
  OVERLORD_TRY(CostModel out, transformer_cost(layers));
  OVERLORD_RETURN_IF_ERROR(check_dimension("patches", shape.patches, 0, kMaxDimension));
  out.kind = model::CostKind::kVit;
  if (shape.patches > 0) {
    CostTerm& term = out.terms[0];
    const Int128 linear = Int128{term.quadratic_q32} * shape.patches + term.linear_q32;
    if (!fits_int64(linear)) {
      return invalid_argument("cost: an image of so many patches costs more than 63 bits hold");
    }
    term.linear_q32 = static_cast<int64_t>(linear);
    term.quadratic_q32 = 0;
  }
  return out;
}

}  // namespace overlord::plan
