// Placement: deals the bins of a step to consumers and microbatches as a strategy says, on the
// graph. It only moves (law 2); substeps are dealt one by one, so that nothing crosses them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/model/mesh.h"
#include "overlord/model/plan_report.h"
#include "overlord/model/strategy.h"
#include "overlord/plan/balance/balance.h"
#include "overlord/plan/balance/balance_vector.h"
#include "overlord/plan/place/dgraph.h"
#include "overlord/plan/select/sample_cutting.h"

namespace overlord::plan {

// Substeps of the step; `graph.shape().microbatches` is a multiple.
struct DealShape {
  uint32_t substeps = 1;
  uint32_t stages = 1;  // of the pipeline
};

// Puts every bin into a microbatch: in arrival order, or balanced and ordered by the strategy's
// cost. Keeps scratch from step to step.
class Placer {
 public:
  Status place(const model::Strategy& strategy, const DealShape& deal, DGraph* graph);
  // The same at seats that a user's function chose (consumer * microbatches + microbatch), which
  // were checked. What a balancer chose is ordered as any balance is.
  Status place_as_told(const model::Strategy& strategy, const DealShape& deal,
                       std::span<const int64_t> seats, DGraph* graph);
  // The same with samples of these costs dealt one by one: a graph whose bins are the microbatches,
  // each with a length of its own.
  Result<std::shared_ptr<DGraph>> place_samples(const model::Strategy& strategy,
                                                const DealShape& deal, const CutShape& cut,
                                                std::span<const model::Segment> segments,
                                                std::span<const int64_t> costs,
                                                std::span<const uint32_t> bin_ends,
                                                std::span<const model::MetaColumn> columns,
                                                std::vector<uint32_t>* capacities);
  // Of a placed graph with costs.
  static Result<model::PlanReport> report(const model::Strategy& strategy, const DealShape& deal,
                                          const DGraph& graph);
  // Of the graph that was placed last: how even its further costs are.
  std::vector<model::PlanReport> further_reports(const DGraph& graph) const;
  Balancer* balancer() { return &balancer_; }

 private:
  using Kinds =
      std::vector<std::vector<int64_t>>;  // costs by kind: the strategy's, then further ones
  struct Part;  // the bins and microbatches of one substep and one group of consumers

  Status balance_part(const model::Strategy& strategy, const Part& part, DGraph* graph);
  Status by_bucket(const model::Strategy& strategy, const Part& part, DGraph* graph);
  Status by_bin(const model::Strategy& strategy, const Part& part, DGraph* graph);
  Status interleaved(const model::Strategy& strategy, const Part& part, DGraph* graph);
  Status balance(const model::Strategy& strategy, const DealShape& deal, DGraph* graph);
  Kinds kinds_of(std::span<const uint32_t> bins, const DGraph& graph) const;
  Result<std::vector<uint32_t>> run(model::BalanceMethod method, const Kinds& kinds, uint32_t bins,
                                    uint32_t most);
  // The same for bins that become microbatches: within the memory limit, if that can be.
  Result<std::vector<uint32_t>> run_limited(const model::Strategy& strategy,
                                            std::span<const uint32_t> bins, const Kinds& kinds,
                                            uint32_t microbatches, uint32_t most);
  Status keep_memory(const model::Strategy& strategy, const DealShape& deal, DGraph* graph);
  Status order(const model::Strategy& strategy, const DealShape& deal, DGraph* graph);

  Balancer balancer_;
  VectorBalancer vector_balancer_;
  Kinds further_;               // by further cost, then bin
  std::vector<int64_t> bytes_;  // of every bin of the step, where there is a memory limit
};

// Seats in arrival order: bins go to consumers in turn, microbatch by microbatch, substep by
// substep.
void deal_in_turn(const DealShape& deal, DGraph* graph);

}  // namespace overlord::plan
