// PipelineSchedule: what waits for what when a pipeline of stages runs the microbatches of a step
// under one-forward-one-backward (1F1B), plain or interleaved, and how long that takes.
//
// Stage s first runs some forwards (plain: stages - 1 - s), then a forward and a backward in turn,
// then the backwards that are left. Interleaved, a stage holds `virtual_stages` parts of the model;
// it runs a part for `stages` microbatches, then the next part for the same ones, and warms up with
// 2 (stages - 1 - s) + (virtual_stages - 1) stages forwards. That is the schedule of Megatron-LM,
// whose pipelines these predictions are for. A run waits for the run before it on its stage and for
// the same microbatch on the stage before (forward) or after (backward); nothing else takes time.
//
// Which run waits for which does not depend on the microbatches' costs, only on their places in the
// order. So the runs are sorted once, and a makespan is one pass over them; and a chain of runs
// that was critical under one order bounds from below the makespan under any other.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "overlord/base/status.h"

namespace overlord::plan {

struct PipelineShape {
  uint32_t stages = 1;
  uint32_t virtual_stages = 1;       // parts of the model on every stage; over 1: interleaved
  int64_t backward_permille = 2000;  // time of a backward, in thousandths of its forward
};

// Times of one forward and one backward of every place (or microbatch): [2 i] and [2 i + 1].
using RunTimes = std::vector<int64_t>;

// A chain of runs that wait for each other: how many forwards [2 i] and backwards [2 i + 1] of
// place i are in it.
using Chain = std::vector<int32_t>;

class PipelineSchedule {
 public:
  // Refuses no stage, no microbatch, an interleaved pipeline whose microbatches are no multiple of
  // its stages, and one too large to hold.
  static Result<PipelineSchedule> make(const PipelineShape& shape, uint32_t microbatches);

  const PipelineShape& shape() const { return shape_; }
  uint32_t microbatches() const { return microbatches_; }
  uint32_t runs() const { return static_cast<uint32_t>(runs_.size()); }

  // `costs`: forward time of each microbatch on one stage, all its parts together. A part's forward
  // and backward are rounded up to whole units. Refuses negative costs and sums over 63 bits.
  Result<RunTimes> run_times(std::span<const int64_t> costs) const;

  // When every run ends, if place i takes `times` [2 i], [2 i + 1]; ends[0] is the start, 0, and
  // ends[n + 1] belongs to run n. Runs before `first` are taken as they are in `ends`, which has
  // runs() + 1 elements. Gives the makespan.
  int64_t run(std::span<const int64_t> times, uint32_t first, std::span<int64_t> ends) const;
  // No run before this one belongs to `place` or a later one.
  uint32_t first_run(uint32_t place) const { return first_run_[place]; }

  // A chain as long as the makespan that `ends` shows.
  enum class Prefer : uint8_t { kStage, kMicrobatch };  // of two runs that end together
  void critical_chain(std::span<const int64_t> ends, Prefer prefer, std::span<int32_t> chain) const;

 private:
  struct Run {
    uint32_t after_stage = 0;       // index into ends
    uint32_t after_microbatch = 0;  // the same; 0: nothing to wait for
    uint32_t time = 0;              // index into times
  };

  uint32_t warm_up(uint32_t stage) const;
  std::vector<Run> unsorted_runs() const;
  void sort_runs(std::vector<Run> runs);

  PipelineShape shape_;
  uint32_t microbatches_ = 0;
  std::vector<Run> runs_;  // none before one that it waits for; the last one ends the step
  std::vector<uint32_t> first_run_;
};

// What no order of the microbatches can beat. One of the places must take the largest microbatch;
// the chains known to run through that place then cost at least so much, however the others lie.
class MakespanBound {
 public:
  explicit MakespanBound(const PipelineSchedule& schedule);
  int64_t of(std::span<const int64_t> costs) const;

 private:
  struct WeighedChain {
    std::vector<int64_t> by_place;  // thousandths of a part's forward
    std::vector<uint32_t> heaviest_first;
  };

  void keep_chains(const PipelineSchedule& schedule, std::span<const int64_t> ends,
                   std::vector<WeighedChain>* chains) const;

  PipelineShape shape_;
  uint32_t places_ = 0;
  std::vector<WeighedChain> even_chains_;                 // critical when all costs are equal
  std::vector<std::vector<WeighedChain>> anchor_chains_;  // critical when place i outweighs all
};

// Makespan of one pipeline that runs microbatches of these costs in this order; `order` names a
// microbatch for every place.
Result<int64_t> makespan(const PipelineShape& shape, std::span<const int64_t> costs,
                         std::span<const uint32_t> order);
// The same for several orders, one after the other in `orders`.
Result<std::vector<int64_t>> makespans(const PipelineShape& shape, std::span<const int64_t> costs,
                                       std::span<const uint32_t> orders);

}  // namespace overlord::plan
