// Hybrid data parallelism as values: what a strategy declares of it, and the groups of ranks that a
// plan has. How groups are made is in plan/hybrid/hdp.h; what of them is delivered in
// model/hdp_layer.h.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "overlord/base/fields.h"

namespace overlord::model {

// What one rank can hold and how long it takes. Times are of one layer, forward and backward
// together: T = square_fs * (sum of s^2) + token_fs * (sum of s) + fixed_fs, in femtoseconds.
// A group of N ranks takes the N-th part of the work; keys and values go around a ring meanwhile,
// and a rank waits for the slower of ring and attention.
struct HdpModel {
  int64_t square_fs = 0;
  int64_t token_fs = 0;
  int64_t fixed_fs = 0;
  uint32_t forward_permille = 333;     // the forward share of T
  int64_t activation_token_bytes = 1;  // one layer: Act(s) = this * s + activation_fixed_bytes
  int64_t activation_fixed_bytes = 0;
  uint32_t layers = 1;           // on one rank
  uint32_t capacity = 0;         // tokens of a rank with nothing offloaded
  int64_t to_host_per_s = 0;     // bytes a second, device to host
  int64_t from_host_per_s = 0;   // and back
  int64_t host_bytes = 0;        // of a rank for offloaded activations; 0: no limit
  int64_t ring_token_bytes = 0;  // sent per token and layer, forward and backward together
  int64_t ring_per_s = 0;        // bytes a second of a rank's link; 0: sending is free
  int64_t ring_hop_ns = 0;       // added by every step of the ring

  OVERLORD_FIELDS(square_fs, token_fs, fixed_fs, forward_permille, activation_token_bytes,
                  activation_fixed_bytes, layers, capacity, to_host_per_s, from_host_per_s,
                  host_bytes, ring_token_bytes, ring_per_s, ring_hop_ns)
};

enum class HdpMethod : uint8_t {  // digests know them by these numbers
  kNaive = 2,    // the ranks each sequence needs, in order of arrival, round the ranks
  kBuckets = 3,  // ByteScale's balance: equal-work buckets, ranks that are behind go first
  kSearch = 4,   // the default: degrees and places searched together
};

enum class HdpBalance : uint8_t {
  kDp,  // similar lengths run at the same time; for one pipeline stage
  kPp,  // every rank's microbatches are similar; for several stages
};

// Of a strategy whose atoms are slices.
struct HdpSpec {
  HdpModel model;
  HdpMethod method = HdpMethod::kSearch;
  std::optional<HdpBalance> balance;  // absent: kPp where there are several stages, else kDp
  bool offload = true;
  bool powers_of_two = false;     // kSearch: only such degrees
  uint32_t max_microbatches = 0;  // of a rank and substep; 0: no limit

  OVERLORD_FIELDS(model, method, balance, offload, powers_of_two, max_microbatches)
};

// Ranks that work on the same sequences at the same time. Members are in ring order.
struct HdpGroup {
  uint32_t microbatch = 0;  // groups of one number share no rank; a rank's numbers rise
  std::vector<uint32_t> ranks;
  std::vector<uint32_t> sequences;
  uint32_t offload_permille = 0;
  uint64_t tokens = 0;
  uint64_t targets = 0;  // valid tokens: their losses are summed, then divided by the plan's total
  int64_t cost_ns = 0;
  int64_t start_ns = 0;
  uint32_t substep = 0;

  OVERLORD_FIELDS(microbatch, ranks, sequences, offload_permille, tokens, targets, cost_ns,
                  start_ns, substep)
};

}  // namespace overlord::model
