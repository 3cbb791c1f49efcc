// Strategy: how the samples of a step are dealt to the trainer's ranks, as data. Written in YAML or
// traced from a Python function; part of the config digest. It only moves what selection chose
// (law 2): no value here changes what a step holds.
#pragma once

#include <cstdint>
#include <string>

#include "overlord/model/callout.h"
#include "overlord/model/cost_model.h"

namespace overlord::model {

enum class BalanceMethod : uint8_t {
  kArrival,        // round robin in the order given
  kGreedy,         // the least loaded bin, in the order given
  kLpt,            // the same, largest first
  kLptSearch,      // LPT, then moves and swaps out of the fullest bin; what the product uses
  kKarmarkarKarp,  // largest differencing over all bins at once
  kZigzag,         // largest first, dealt to the bins there and back
};
// What is evened out: totals of consumers (bins keep their arrival order inside), microbatches of
// each consumer (who gets what stays as it came), or all microbatches of all consumers as one pool.
enum class BalanceLevel : uint8_t { kBucket, kBin, kInterleaved };
// What is dealt: whole sequences, or samples one by one into microbatches of their own length.
enum class Atoms : uint8_t { kSequences, kSamples };
enum class OrderMethod : uint8_t { kKeep, kAscending, kDescending, kSmallEnds, kSearch };

struct Strategy {
  std::string name;         // of the function it was traced from; for people
  std::string axis = "dp";  // distribute: whose nodes are the consumers
  uint32_t group_size = 0;  // consumers that balance among themselves; 0: all
  bool has_cost = false;    // a strategy without a cost deals in arrival order
  CostModel cost;           // of a sample, from its metadata
  BalanceMethod balance = BalanceMethod::kArrival;
  BalanceLevel level = BalanceLevel::kInterleaved;
  Atoms atoms = Atoms::kSequences;
  uint32_t microbatch_tokens = 0;  // most tokens of a microbatch of samples; 0: as its sequences'
  OrderMethod order = OrderMethod::kKeep;
  uint32_t virtual_stages = 1;        // of every pipeline rank, for `order`
  uint32_t backward_permille = 2000;  // a backward pass over its forward pass

  // A user's own functions. `cost_by` stands for `cost`, `balance_by` for `balance` (and is ordered
  // as that would be), `plan_by` for balance and order.
  CalloutFunction cost_by;
  CalloutFunction balance_by;
  CalloutFunction plan_by;

  bool has_callout() const {
    return cost_by.declared() || balance_by.declared() || plan_by.declared();
  }
  bool is_declared() const {
    return has_cost || group_size != 0 || axis != "dp" || plan_by.declared();
  }
};

}  // namespace overlord::model
