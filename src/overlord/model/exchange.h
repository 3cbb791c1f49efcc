// Exchange: how an encoder's output comes to the ranks that need it, as a plan says it and as ranks
// see it. An encoder's samples have owners of their own, so between encoder and backbone lies one
// all-to-all per microbatch.
//
// Rows are samples. `sent` lists the rows of a microbatch by encoder, `received` by backbone
// bucket; within an owner they ascend in both. `permutation[i]` is the place in `received` of the
// row at place i of `sent`; gradients go back by `inverse`.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "overlord/base/fields.h"
#include "overlord/base/ids.h"
#include "overlord/model/mesh.h"

namespace overlord::model {

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

  OVERLORD_FIELDS(sent, received, permutation, inverse, pairs)
};

// An encoder without a sample that must run all the same, so that collectives do not hang.
struct Dummy {
  uint32_t encoder = 0;
  uint32_t microbatch = 0;

  friend bool operator==(const Dummy&, const Dummy&) = default;
};

inline constexpr uint32_t kNoPlace = 0xffffffffu;

// Who takes part in the exchanges: the same ranks in every step and microbatch, so that a trainer
// makes its process group once. Where a bucket of the backbone has several ranks that need the
// output (tensor and context peers), each gets a copy: the j-th of them from the j-th rank, modulo
// their number, of every encoder.
struct EncoderTable {
  std::shared_ptr<const ViewTable> views;    // bucket: the encoder a rank belongs to; none: not run
  std::vector<Rank> group;                   // ascending: ranks that send or receive
  std::vector<uint32_t> place_of;            // by rank: place in `group`, or kNoPlace
  std::vector<std::vector<Rank>> runners;    // by encoder, ascending; never empty
  std::vector<std::vector<Rank>> receivers;  // by bucket of the backbone, ascending; never empty
};

// What only the layer of an encoder has. Rows of the exchanges are its bins.
struct EncoderPlan {
  std::vector<uint32_t> backbone_of;       // by bin: bucket of the backbone that needs its output
  std::vector<uint32_t> backbone_segment;  // by bin: the segment of the backbone it belongs to
  std::vector<Dummy> dummies;              // by microbatch, then encoder
  std::vector<Exchange> exchanges;         // by microbatch
  uint32_t bytes_per_unit = 0;
  std::shared_ptr<const EncoderTable> table;
};

}  // namespace overlord::model
