// Placement by hybrid data parallelism: the segments of a step, whole or cut over groups of
// consumers, as bins of the plan's layer. It only moves and cuts (law 2): over all consumers the
// slices of every segment are that segment, once.
//
// Every consumer gets the groups it is in, in the one order of all groups, as its microbatches: one
// row each, as long as what it holds. Consumers have different numbers of microbatches; one without
// work in a substep gets an empty one, so that the step ends on every rank.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/model/hdp_layer.h"
#include "overlord/model/job_spec.h"
#include "overlord/model/mesh.h"
#include "overlord/model/plan_report.h"
#include "overlord/plan/place/dgraph.h"
#include "overlord/plan/select/loss_finder.h"

namespace overlord::plan {

// Can the job's sequences be dealt this way over this mesh? Refused with what would do.
Status check_hdp_strategy(const model::JobSpec& spec, const model::Mesh& mesh,
                          const model::DeliverySpec& delivery);

struct HdpPlaced {
  std::shared_ptr<DGraph> graph;  // its samples are the slices, its bins the microbatches
  std::vector<uint32_t> capacities;
  std::vector<uint32_t> bucket_microbatches;
  std::shared_ptr<const model::HdpLayer> layer;
  model::PlanReport report;
};

// `finder` may be null where no source has a mask.
Result<HdpPlaced> place_hdp(const model::JobSpec& spec, const model::Mesh& mesh,
                            std::vector<model::Segment> segments,
                            std::span<const uint32_t> bin_ends, const LossFinder* finder);

}  // namespace overlord::plan
