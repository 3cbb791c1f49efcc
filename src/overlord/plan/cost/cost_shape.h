// Cost models from the shape of a network: floating-point operations become nanoseconds by a
// declared speed, activations become bytes. Forward and backward, of one rank of one stage.
//
// Per token and layer the forward pass takes 2 operations per weight that touches it, per pair of
// tokens that attend to each other 4 * hidden; a causal mask halves the pairs, and the backward
// pass takes twice the forward one. Kept per token and layer are the inputs of every matrix product
// and of the norms, two bytes a value; attention keeps no scores.
#pragma once

#include <cstdint>
#include <string>

#include "overlord/base/status.h"
#include "overlord/model/cost_model.h"

namespace overlord::plan {

// Speeds measured on an H200 in bf16 (the median of the presets' layers); on another machine the
// costs stretch, and only the ratio of the two changes a balance.
inline constexpr int64_t kMatrixFlopsPerSecond = 590'000'000'000'000;
inline constexpr int64_t kCausalFlopsPerSecond = 280'000'000'000'000;
inline constexpr int64_t kUnmaskedFlopsPerSecond = 215'000'000'000'000;

struct TransformerShape {
  int64_t hidden = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;  // 0: as many as heads
  int64_t ffn = 0;       // width of the feed-forward part, of one expert
  bool gated = true;     // three matrices instead of two
  bool causal = true;
  int64_t vocabulary = 0;      // 0: no output head
  int64_t experts = 1;         // 1: no router
  int64_t experts_active = 1;  // that a token visits
  int64_t tp = 1;              // splits everything
  int64_t pp = 1;              // the costliest stage: ceil(layers / pp) layers and the output head
  int64_t flops_per_second = kMatrixFlopsPerSecond;
  int64_t attention_flops_per_second = kCausalFlopsPerSecond;
  std::string column = "tokens";
};

Result<model::CostModel> transformer_cost(const TransformerShape& shape);

struct VitShape {
  int64_t hidden = 0;
  int64_t layers = 0;
  int64_t heads = 1;
  int64_t ffn = 0;
  // Patches of every image, so that a sample may have several: each attends to itself alone. 0: the
  // column holds the patches of one image, whose attention is quadratic.
  int64_t patches = 0;
  int64_t tp = 1;
  int64_t flops_per_second = kMatrixFlopsPerSecond;
  int64_t attention_flops_per_second = kUnmaskedFlopsPerSecond;
  std::string column = "image_patches";
};

Result<model::CostModel> vit_cost(const VitShape& shape);

}  // namespace overlord::plan
