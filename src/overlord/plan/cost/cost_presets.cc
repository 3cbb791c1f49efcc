#include "overlord/plan/cost/cost_presets.h"

#include <string>

#include "overlord/base/check.h"
#include "overlord/base/fixed_point.h"
#include "overlord/plan/cost/cost_preset_table.h"
#include "overlord/plan/cost/cost_shape.h"

namespace overlord::plan {
namespace {

using model::CostModel;

constexpr int64_t kMaxLayers = 1 << 20;

Result<int64_t> scaled(int64_t per_layer, int64_t layers, int64_t split) {
  OVERLORD_CHECK(layers > 0 && split > 0, "a stage has a layer");
  const Int128 value = floor_div(Int128{per_layer} * layers + split / 2, split);
  if (!fits_int64(value)) return invalid_argument("cost: so many layers leave 63 bits");
  return static_cast<int64_t>(value);
}

// Bytes come from the shape: they were not measured.
Result<CostModel> shape_of(const CostPreset& preset, int64_t layers, int64_t tp) {
  TransformerShape shape;
  shape.hidden = preset.hidden;
  shape.layers = layers;
  shape.heads = preset.heads;
  shape.kv_heads = preset.kv_heads;
  shape.ffn = preset.ffn;
  shape.gated = !preset.vit;
  shape.tp = tp;
  shape.column = std::string(preset.column);
  return transformer_cost(shape);
}

}  // namespace

std::span<const CostPreset> cost_presets() { return kCostPresets; }

Result<CostModel> preset_cost(std::string_view name, int64_t layers, int64_t tp, int64_t pp) {
  std::string known;
  for (const CostPreset& preset : kCostPresets) {
    if (preset.name != name) {
      known += (known.empty() ? "" : ", ") + std::string(preset.name);
      continue;
    }
    const int64_t all = layers == 0 ? preset.layers : layers;
    if (all < 1 || all > kMaxLayers || tp < 1 || tp > kMaxLayers || pp < 1 || pp > all) {
      return invalid_argument(
          "cost: a preset needs layers and tp between 1 and 2^20 and pp between 1 and layers; got "
          "layers " +
          std::to_string(all) + ", tp " + std::to_string(tp) + ", pp " + std::to_string(pp));
    }
    const auto stage = static_cast<int64_t>(ceil_div(all, pp));
    OVERLORD_TRY(CostModel out, shape_of(preset, stage, tp));
    out.kind = preset.vit ? model::CostKind::kVit : model::CostKind::kTransformer;
    // Launching a layer takes as long on a rank that holds a part of it.
    OVERLORD_TRY(out.bin_q32, scaled(preset.bin_q32, stage, 1));
    OVERLORD_TRY(out.terms[0].linear_q32, scaled(preset.linear_q32, stage, tp));
    OVERLORD_TRY(out.terms[0].quadratic_q32, scaled(preset.quadratic_q32, stage, tp));
    return out;
  }
  return invalid_argument("cost: unknown preset; known are " + known + "; got '" +
                          std::string(name) + "'");
}

}  // namespace overlord::plan
