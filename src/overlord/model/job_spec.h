// JobSpec: everything that decides what a step holds. The stream is a pure function of it, of the
// manifest, of the seed in it and of the input log. RuntimeOptions decides only how fast.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "overlord/base/fields.h"
#include "overlord/base/ids.h"
#include "overlord/model/mixture.h"
#include "overlord/model/source.h"
#include "overlord/model/strategy.h"

namespace overlord::model {

enum class Packing : uint8_t { kBestFit, kConcat, kPad };
// What becomes of carry-over when the sources are spent: further steps; none after the first that
// cannot be filled; or not that one either, so that every step is full.
enum class Leftover : uint8_t { kDrain, kDrop, kDropLast };

struct PackingSpec {
  Packing method = Packing::kBestFit;
  uint32_t slack_permille = 50;  // how much more than the step's bins best_fit draws ahead
  uint32_t max_delay_steps = 4;  // hard cap on how long a drawn document may wait

  OVERLORD_FIELDS(method, slack_permille, max_delay_steps)
};

// Steps whose bins are dealt anew among each other by cost, so that outliers meet. Changes what a
// step holds, so it reads no mesh: `width` stands for the consumers that share a step.
struct WindowSpec {
  uint32_t steps = 1;  // 1: steps stay as they were selected
  uint32_t max_delay = 1;
  uint32_t width = 1;
  CostModel cost;

  OVERLORD_FIELDS(steps, max_delay, width, cost)
};

// From a step on, steps have so many bins.
struct BinsStage {
  StepIndex first_step = 0;
  uint32_t bins = 0;

  friend bool operator==(const BinsStage&, const BinsStage&) = default;

  OVERLORD_FIELDS(first_step, bins)
};

struct JobSpec {
  std::string name;
  std::string stream = "train";  // named streams of one job have their own seed and state
  uint64_t seed = 0;
  uint32_t context = 0;    // tokens of a bin (one sequence)
  uint32_t bins = 0;       // sequences of a step, over the whole job; of step 0 where they change
  uint32_t substeps = 1;   // packing never crosses one; divides bins
  uint32_t align = 1;      // documents pack at their length rounded up to this
  uint32_t pad_token = 0;  // fills tokens and targets where there is no document
  uint64_t max_steps = 0;  // 0: until a source with `stop` (or all) is dry; not in the digest,
                           // so that a run can be made longer
  Leftover leftover = Leftover::kDrain;
  PackingSpec packing;
  WindowSpec window;
  Mixture mixture;
  Strategy strategy;            // how bins are dealt; changes places, never contents
  std::vector<Source> sources;  // sorted by name, names unique
  // Metadata columns of all sources together, sorted: what plans may read beside token counts.
  std::vector<std::string> columns;
  Transform batch_transform;          // of whole microbatches, at constructors
  std::vector<BinsStage> later_bins;  // by ascending step, the first after step 0

  // All of them, from step 0 on.
  std::vector<BinsStage> bin_stages() const {
    std::vector<BinsStage> stages = {{0, bins}};
    stages.insert(stages.end(), later_bins.begin(), later_bins.end());
    return stages;
  }
  uint32_t bins_at(StepIndex step) const {
    uint32_t held = bins;
    for (const BinsStage& stage : later_bins) held = step < stage.first_step ? held : stage.bins;
    return held;
  }
  uint64_t step_tokens(StepIndex step) const { return uint64_t{bins_at(step)} * context; }
  uint32_t most_bins() const {
    uint32_t most = bins;
    for (const BinsStage& stage : later_bins) most = std::max(most, stage.bins);
    return most;
  }

  OVERLORD_FIELDS(name, stream, seed, context, bins, substeps, align, pad_token, max_steps,
                  leftover, packing, window, mixture, strategy, sources, columns, batch_transform,
                  later_bins)
};

// Limits and sizes of the running system; none of them may change a byte of the stream.
// Who says how many slots read a source, up to its most_loaders: nobody but users; what reading it
// has cost and what the mixture asks of it, also soon; the moving average of its share alone.
enum class ScalingPolicy : uint8_t { kOff, kMeasured, kShare };

struct Scaling {
  ScalingPolicy policy = ScalingPolicy::kMeasured;
  bool advise_only = false;  // written down, and not done
  int64_t interval_ms = 1000;

  OVERLORD_FIELDS(policy, advise_only, interval_ms)
};

struct RuntimeOptions {
  uint32_t threads = 2;         // CPU pool: role loops, decoding, packing bytes
  uint32_t io_threads = 2;      // blocking storage calls
  uint32_t prefetch_steps = 3;  // steps a client asks for ahead of the one it holds
  uint32_t runway = 4;          // plans published ahead of the slowest constructor
  uint64_t payload_budget_bytes = 256ull << 20;  // decoded blocks kept by all loaders of a host
  uint64_t constructor_budget_bytes = 512ull
                                      << 20;  // slabs of steps not yet consumed, per constructor
  uint64_t private_copy_limit_bytes = 1ull << 30;  // views held beyond the pool (law 14)
  uint32_t open_files = 64;                        // LRU of handles
  uint32_t tokenizer_processes = 1;                // per distinct tokenizer
  int64_t alarm_ms = 10'000;                       // a source later than this is named in the log
  bool hash_batches = false;  // chain the bytes of every batch into the stream hash
  // Ranks whose reports make up a step's feedback, ascending: what they say is an input of a
  // metric-driven stream, who says it is not.
  std::vector<Rank> reporters = {0};
  // Nobody plans this stream but the planner that these roles belong to, so that it may decide what
  // is not a function of the bytes: that users' code crashed over a row, or ran too long (law 9).
  bool one_planner = true;
  Scaling scaling;

  // The runway that holds: a client asks `prefetch_steps` ahead of the one it holds, and fewer
  // plans than that would starve it.
  uint32_t plans_out() const { return std::max(runway, prefetch_steps + 1); }

  OVERLORD_FIELDS(threads, io_threads, prefetch_steps, runway, payload_budget_bytes,
                  constructor_budget_bytes, private_copy_limit_bytes, open_files,
                  tokenizer_processes, alarm_ms, hash_batches, reporters, one_planner, scaling)
};

}  // namespace overlord::model
