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

namespace overlord::plan {

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
};

// Coefficients measured on one NVIDIA H200: "llama12b", "mixtral8x7b". Empty for other names.
std::optional<HdpModel> h200_model(std::string_view name);

enum class HdpMethod : uint8_t {
  kStatic,      // every sequence over the same number of ranks, enough for the longest
  kPowerOfTwo,  // groups of 2^k ranks, equal microbatch counts, each microbatch filled by itself
  kNaive,       // the ranks each sequence needs, in order of arrival, round the ranks
  kBuckets,     // ByteScale's balance: equal-work buckets, ranks that are behind go first
  kSearch,      // the default: degrees and places searched together
};

enum class HdpBalance : uint8_t {
  kDp,  // similar lengths run at the same time; for one pipeline stage
  kPp,  // every rank's microbatches are similar; for several stages
};

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
  uint32_t context = 0;           // kStatic: what the groups are made for; 0: the longest length
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
