// Two modules with different owners: an encoder's samples are dealt over other consumers than the
// backbone's, microbatch by microbatch, and the trainer moves the encoder's output to where it is
// needed. This plans the second layer and the exchange between the two.
//
// Order of rows (model/exchange.h): within a microbatch an encoder holds its samples in ascending
// order, and so does a backbone consumer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/model/exchange.h"
#include "overlord/model/strategy.h"
#include "overlord/plan/balance/balance.h"

namespace overlord::plan {

using model::Dummy;
using model::Exchange;
using model::PairBytes;

inline constexpr uint32_t kNoOwner = 0xffffffffu;

struct EncoderProblem {
  std::span<const int64_t> costs;           // per sample; 0: it has nothing to encode
  std::span<const uint32_t> microbatch_of;  // per sample, where the backbone placed it
  uint32_t microbatches = 1;
  uint32_t encoders = 1;
  // Collectives inside the encoder hang when some ranks have an image and others none: with parity
  // every encoder gets at least one in a microbatch in which any does, a declared dummy if need be.
  bool parity = false;
  uint32_t group_size = 0;  // encoders that balance among themselves; 0: all
};

struct MicrobatchLoad {
  int64_t slowest = 0;
  int64_t lower_bound = 0;
  LoadLimit bound_by = LoadLimit::kMean;
};

struct EncoderLayer {
  std::vector<uint32_t> encoder_of;  // per sample; kNoOwner: nothing to encode
  std::vector<Dummy> dummies;        // by microbatch, then encoder
  std::vector<int64_t> loads;        // by encoder, over all microbatches
  std::vector<MicrobatchLoad> microbatches;
  int64_t slowest_sum = 0;  // of the slowest encoder of every microbatch
  int64_t lower_bound = 0;  // of slowest_sum
};

Result<EncoderLayer> place_encoder(model::BalanceMethod method, const EncoderProblem& problem,
                                   Balancer* balancer);

// slowest_sum of a deal in arrival order, microbatch by microbatch.
int64_t slowest_in_turn(const EncoderProblem& problem);

// `bytes`: of a sample's encoded output. One exchange per microbatch.
std::vector<Exchange> make_exchanges(const EncoderLayer& layer, const EncoderProblem& problem,
                                     std::span<const uint32_t> backbone_of,
                                     std::span<const int64_t> bytes);

}  // namespace overlord::plan
