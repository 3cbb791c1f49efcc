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
#include "overlord/plan/balance.h"
#include "overlord/plan/dgraph.h"
#include "overlord/plan/sample_cutting.h"

namespace overlord::plan {

// Substeps of the step; `graph.shape().microbatches` is a multiple.
struct DealShape {
  uint32_t substeps = 1;
  uint32_t stages = 1;  // of the pipeline
};

// What every segment costs under the strategy's native cost model.
Result<std::vector<int64_t>> sample_costs(const model::Strategy& strategy,
                                          std::span<const model::Segment> segments);

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
                                                std::vector<uint32_t>* capacities);
  // Of a placed graph with costs.
  static Result<model::PlanReport> report(const model::Strategy& strategy, const DealShape& deal,
                                          const DGraph& graph);

 private:
  struct Part;  // the bins and microbatches of one substep and one group of consumers

  Status balance_part(const model::Strategy& strategy, const Part& part, DGraph* graph);
  Status by_bucket(const model::Strategy& strategy, const Part& part, DGraph* graph);
  Status by_bin(const model::Strategy& strategy, const Part& part, DGraph* graph);
  Status interleaved(const model::Strategy& strategy, const Part& part, DGraph* graph);
  Result<std::vector<uint32_t>> run(model::BalanceMethod method, std::span<const int64_t> costs,
                                    uint32_t bins, uint32_t most);
  Status order(const model::Strategy& strategy, const DealShape& deal, DGraph* graph);

  Balancer balancer_;
};

// Seats in arrival order: bins go to consumers in turn, microbatch by microbatch, substep by
// substep.
void deal_in_turn(const DealShape& deal, DGraph* graph);

}  // namespace overlord::plan
