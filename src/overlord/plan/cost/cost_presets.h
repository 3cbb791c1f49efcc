// Named cost models: the networks of the OVERLORD paper's evaluation (its Table 1), with layer
// times measured on one NVIDIA H200 in bf16 and fitted by tools/fit_presets.py. Feed-forward
// widths, which the paper does not give, are ours. Only the layers were measured: no embedding, no
// output head.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "overlord/base/status.h"
#include "overlord/model/cost_model.h"

namespace overlord::plan {

// One layer, forward and backward, as measured. Errors are relative to the measured time of
// held-out rows (five folds), in permille.
struct CostPreset {
  std::string_view name;
  std::string_view column;
  bool vit = false;
  int64_t hidden = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t ffn = 0;               // of all active experts together
  int64_t bin_q32 = 0;           // per microbatch and layer
  int64_t linear_q32 = 0;        // per token and layer
  int64_t quadratic_q32 = 0;     // per squared document length and layer
  int32_t forward_permille = 0;  // of forward and backward together
  int32_t rows = 0;              // that were measured
  int32_t median_error_permille = 0;
  int32_t p90_error_permille = 0;
  int32_t max_error_permille = 0;
};

std::span<const CostPreset> cost_presets();

// The preset with `layers` of its layers (0: all), split over `tp` ranks and, rounded up, `pp`
// stages.
Result<model::CostModel> preset_cost(std::string_view name, int64_t layers = 0, int64_t tp = 1,
                                     int64_t pp = 1);

}  // namespace overlord::plan
