// Hybrid data parallelism: one axis of ranks that hold equal memory, not equal roles. A sequence
// that fits a rank stays whole and is packed with others; a longer one is cut over as many ranks as
// it needs, any number of them. Ranks may run different numbers of microbatches.
//
// Everything here is pure and in integers: the same plan on every CPU. What a group costs is the
// model's word and is the same for every method, so plans of different methods can be compared.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/model/hdp.h"

namespace overlord::plan {

using model::HdpBalance;
using model::HdpGroup;
using model::HdpMethod;
using model::HdpModel;

// Coefficients measured on one NVIDIA H200: "llama12b", "mixtral8x7b". Empty for other names.
std::optional<HdpModel> h200_model(std::string_view name);

struct HdpProblem {
  std::span<const uint32_t> lengths;  // tokens by sequence, each > 0
  std::span<const uint32_t> targets;  // tokens that carry loss; empty: all but each last
  uint32_t ranks = 1;
  uint32_t stages = 1;  // pipeline stages; one rank here stands for a pipeline
  HdpModel model;
  bool offload = true;
  HdpBalance balance = HdpBalance::kDp;
  HdpMethod method = HdpMethod::kSearch;
  bool powers_of_two = false;     // kSearch: only such degrees
  uint32_t align = 1;             // chunks are cut at multiples of this
  uint32_t max_microbatches = 0;  // of a rank; 0: no limit
};

struct HdpPlan {
  // In the one order that every rank keeps for the groups it is in, so that no two ranks wait for
  // each other.
  std::vector<HdpGroup> groups;
  std::vector<uint32_t> rank_microbatches;   // by rank
  std::vector<int64_t> rank_ns;              // by rank: when it is done
  std::vector<uint64_t> microbatch_targets;  // by microbatch number
  uint64_t targets = 0;                      // the global divisor of the loss
  int64_t makespan_ns = 0;                   // the slowest rank
  int64_t lower_bound_ns = 0;                // of plans that keep short sequences whole
  uint32_t limiting_sequence = 0;            // kNoSequence: the mean work limits
  int64_t gap_ppm = 0;                       // makespan over the bound
};

inline constexpr uint32_t kNoSequence = 0xffffffffu;

// The plan of one step. Fails where a sequence does not fit all ranks together, or where
// max_microbatches is too small.
Result<HdpPlan> plan_hdp(const HdpProblem& problem);

// Whether the plan is one of this problem: each sequence in one group, slices that cover it once,
// ranks in one group at a time and in one order, capacities, counts, times and totals.
Status check_hdp(const HdpPlan& plan, const HdpProblem& problem);

// --- Slices -------------------------------------------------------------------------------------

struct HdpChunk {
  uint32_t first = 0;
  uint32_t count = 0;
};

// What member `member` of `members` holds of a sequence: chunks `member` and 2N-1-`member` of 2N,
// so that tokens and causal attention are both even. Chunks differ by `align` tokens at most.
struct HdpSlice {
  HdpChunk low;
  HdpChunk high;
};
HdpSlice slice_of(uint32_t length, uint32_t members, uint32_t member, uint32_t align);

// Tokens that the fullest of `members` holds.
uint32_t largest_share(uint32_t length, uint32_t members, uint32_t align);

// --- Cost and degree ----------------------------------------------------------------------------

// Work of a group before it is divided, over all layers of a rank, in nanoseconds.
struct HdpWork {
  int64_t attention_ns = 0;
  int64_t linear_ns = 0;
  int64_t ring_ns = 0;  // all keys and values over one link
};
HdpWork work_of(const HdpModel& model, uint64_t tokens, uint64_t squares);
int64_t duration_of(const HdpModel& model, const HdpWork& work, uint32_t ranks);

// The largest share of a sequence's activations that can be copied out and back while it computes.
uint32_t offload_limit(const HdpModel& model, uint32_t length);

// The least share that must be offloaded for `tokens` on a rank, if at most `limit` may be.
std::optional<uint32_t> offload_needed(const HdpModel& model, uint32_t tokens, uint32_t limit);

// The fewest ranks for a sequence; nothing where `ranks` do not suffice.
std::optional<uint32_t> least_ranks(const HdpProblem& problem, uint32_t length);

}  // namespace overlord::plan
