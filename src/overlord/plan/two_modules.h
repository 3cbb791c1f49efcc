// Two modules with different owners: an encoder's samples are dealt over other consumers than the
// backbone's, microbatch by microbatch, and the trainer moves the encoder's output to where it is
// needed. This plans the second layer and the exchange between the two.
//
// Order of rows. Within a microbatch an encoder holds its samples in ascending order, and so does a
// backbone consumer; `sent` lists rows by encoder, `received` by backbone consumer.
// `permutation[i]` is the place in `received` of the row at place i of `sent`; gradients go back by
// `inverse`.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/model/strategy.h"
#include "overlord/plan/balance.h"

namespace overlord::plan {

inline constexpr uint32_t kNoOwner = 0xffffffffu;

struct EncoderProblem {
  std::span<const int64_t> costs;           // per sample; 0: it has nothing to encode
  std::span<const uint32_t> microbatch_of;  // per sample, where the backbone placed it
  uint32_t microbatches = 1;
  uint32_t encoders = 1;
  // Collectives inside the encoder hang when some ranks have an image and others none: with parity
  // every encoder gets at least one in a microbatch in which any does, a declared dummy if need be.
  bool parity = false;
};

struct Dummy {
  uint32_t encoder = 0;
  uint32_t microbatch = 0;

  friend bool operator==(const Dummy&, const Dummy&) = default;
};

struct EncoderLayer {
  std::vector<uint32_t> encoder_of;  // per sample; kNoOwner: nothing to encode
  std::vector<Dummy> dummies;        // by microbatch, then encoder
  std::vector<int64_t> loads;        // by encoder, over all microbatches
  int64_t slowest_sum = 0;           // of the slowest encoder of every microbatch
  int64_t lower_bound = 0;           // of slowest_sum
};

Result<EncoderLayer> place_encoder(model::BalanceMethod method, const EncoderProblem& problem,
                                   Balancer* balancer);

struct PairBytes {
  uint32_t encoder = 0;
  uint32_t backbone = 0;
  int64_t bytes = 0;

  friend bool operator==(const PairBytes&, const PairBytes&) = default;
};

struct Exchange {  // of one microbatch
  std::vector<uint32_t> sent;
  std::vector<uint32_t> received;
  std::vector<uint32_t> permutation;
  std::vector<uint32_t> inverse;
  std::vector<PairBytes> pairs;  // by encoder, then backbone; none of 0 samples
};

// `bytes`: of a sample's encoded output. One exchange per microbatch.
std::vector<Exchange> make_exchanges(const EncoderLayer& layer, const EncoderProblem& problem,
                                     std::span<const uint32_t> backbone_of,
                                     std::span<const int64_t> bytes);

}  // namespace overlord::plan
