// Strategy: how the samples of a step are dealt to the trainer's ranks, as data. Written in YAML or
// traced from a Python function; part of the config digest. It only moves what selection chose
// (law 2): no value here changes what a step holds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "overlord/base/fields.h"
#include "overlord/model/callout.h"
#include "overlord/model/cost_model.h"
#include "overlord/model/hdp.h"

namespace overlord::model {

enum class BalanceMethod : uint8_t {
  kArrival,        // round robin in the order given
  kGreedy,         // the least loaded bin, in the order given
  kLpt,            // the same, largest first
  kLptSearch,      // LPT, then moves and swaps out of the fullest bin; what the product uses
  kKarmarkarKarp,  // largest differencing over all bins at once
  kZigzag,         // largest first, dealt to the bins there and back
  kVector,         // several costs evened out at once; with one cost, as kLptSearch
};
// What is evened out: totals of consumers (bins keep their arrival order inside), microbatches of
// each consumer (who gets what stays as it came), or all microbatches of all consumers as one pool.
enum class BalanceLevel : uint8_t { kBucket, kBin, kInterleaved };
// What is dealt: whole sequences, samples one by one into microbatches of their own length, or
// samples that may be cut over several consumers (hybrid data parallelism, `Strategy::hdp`).
enum class Atoms : uint8_t { kSequences, kSamples, kSlices };
enum class OrderMethod : uint8_t { kKeep, kAscending, kDescending, kSmallEnds, kSearch };

// A second module (a vision encoder) whose samples have owners of their own: a second layer of the
// plan, and an exchange that takes its output to where the backbone needs it.
struct EncoderStrategy {
  std::string module = "encoder";
  std::string axis = "world";  // whose nodes encode
  uint32_t group_size = 0;     // encoders that balance among themselves; 0: all
  // Metadata column that says how many units a sample has to encode; those with 0 have no part.
  std::string column = "image_patches";
  CostModel cost;  // of a sample's units
  BalanceMethod balance = BalanceMethod::kLptSearch;
  // Collectives inside the module hang when some have a sample and others none: every encoder gets
  // one, or a declared dummy, in a microbatch in which any has one.
  bool parity = false;
  uint32_t bytes_per_unit = 0;  // of the output, so that the trainer can size its buffers

  OVERLORD_FIELDS(module, axis, group_size, column, cost, balance, parity, bytes_per_unit)
};

struct Strategy {
  std::string name;         // of the function it was traced from; for people
  std::string axis = "dp";  // distribute: whose nodes are the consumers
  uint32_t group_size = 0;  // consumers that balance among themselves; 0: all
  bool has_cost = false;    // a strategy without a cost deals in arrival order
  CostModel cost;           // of a sample, from its metadata
  // Costs of other modules with the same owners, which kVector evens out beside the first.
  std::vector<CostModel> further_costs;
  BalanceMethod balance = BalanceMethod::kArrival;
  BalanceLevel level = BalanceLevel::kInterleaved;
  Atoms atoms = Atoms::kSequences;
  uint32_t microbatch_tokens = 0;  // most tokens of a microbatch of samples; 0: as its sequences'
  int64_t memory_limit = 0;        // most bytes of a microbatch, by the cost model; 0: none
  OrderMethod order = OrderMethod::kKeep;
  uint32_t virtual_stages = 1;        // of every pipeline rank, for `order`
  uint32_t backward_permille = 2000;  // a backward pass over its forward pass
  HdpSpec hdp;                        // of atoms that are slices

  std::optional<EncoderStrategy> encoder;

  // A user's own functions. `cost_by` stands for `cost`, `balance_by` for `balance` (and is ordered
  // as that would be), `plan_by` for balance and order.
  CalloutFunction cost_by;
  CalloutFunction balance_by;
  CalloutFunction plan_by;

  bool has_own_places() const { return balance_by.declared() || plan_by.declared(); }
  const CalloutFunction& function_of(CalloutKind kind) const {
    return kind == CalloutKind::kCost      ? cost_by
           : kind == CalloutKind::kBalance ? balance_by
                                           : plan_by;
  }
  bool has_callout() const { return cost_by.declared() || has_own_places(); }
  bool is_declared() const {
    return has_cost || group_size != 0 || axis != "dp" || encoder.has_value() || plan_by.declared();
  }

  OVERLORD_FIELDS(name, axis, group_size, has_cost, cost, further_costs, balance, level, atoms,
                  microbatch_tokens, memory_limit, order, virtual_stages, backward_permille, hdp,
                  encoder, cost_by, balance_by, plan_by)
};

}  // namespace overlord::model
