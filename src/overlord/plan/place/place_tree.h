// Placement: who gets which bin, and what of it each rank sees (law 2: it only moves, never
// selects). Data axes give buckets, other axes decide each rank's view; a strategy deals the bins.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/model/callout.h"
#include "overlord/model/job_spec.h"
#include "overlord/model/mesh.h"
#include "overlord/model/plan.h"
#include "overlord/plan/place/client_place_tree.h"
#include "overlord/plan/place/dgraph.h"
#include "overlord/plan/place/placement.h"
#include "overlord/plan/select/loss_finder.h"
#include "overlord/plan/select/selection.h"

namespace overlord::plan {

// Does this job fit this mesh? Refused with the valid values (bins against DP x microbatch size,
// align and context against the context-parallel slicing).
Status check_fit(const model::JobSpec& spec, const model::Mesh& mesh,
                 const model::DeliverySpec& delivery);

// With a strategy that deals slices every context-parallel rank is a bucket of its own, and sees
// its microbatches whole.
// With an encoder in the strategy the table also says who runs it.
std::shared_ptr<const model::ViewTable> make_views(const model::Mesh& mesh,
                                                   const model::DeliverySpec& delivery,
                                                   uint32_t tree_version,
                                                   const model::Strategy& strategy = {});
// The same where some of the job's `world` ranks are gone: `ranks` are those of the mesh, in its
// order, and the others have no place. Empty: the mesh has all of them.
std::shared_ptr<const model::ViewTable> make_views(const model::Mesh& mesh,
                                                   const model::DeliverySpec& delivery,
                                                   uint32_t tree_version,
                                                   const model::Strategy& strategy,
                                                   const std::vector<Rank>& ranks, uint32_t world);

// Ranks that get something of a microbatch, ascending; `payload`: more than where documents end.
// The others need no loader, but for those of an encoder, which are among them.
std::vector<Rank> ranks_served(const model::ViewTable& views, bool payload);

// Buckets of a job: the data-parallel groups, or the consumers that slices are dealt to.
uint32_t consumer_count(const model::Strategy& strategy, const model::Mesh& mesh);

// Can this strategy deal the job's bins over this mesh?
Status check_strategy(const model::JobSpec& spec, const model::Mesh& mesh,
                      const model::DeliverySpec& delivery);

// Do the job's sources declare every column that a cost names? `key`: where the cost is declared.
Status check_cost_columns(const model::CostModel& cost, const model::JobSpec& spec,
                          std::string_view key);

// Tokens of the longest microbatch where samples are dealt one by one.
uint32_t microbatch_limit(const model::JobSpec& spec, const model::DeliverySpec& delivery);

// What plans are made from, besides the state and the metadata.
struct PlanInputs {
  const model::JobSpec& spec;
  const model::Mesh& mesh;
  const model::DeliverySpec& delivery;
  std::shared_ptr<const model::ViewTable> views;
  model::Versions versions;
  const LossFinder* loss = nullptr;  // for placement that cuts segments of masked sources
  const model::CalloutAnswers* answers = nullptr;  // of a strategy with functions of a user
};

// Microbatches of every consumer for a step of so many bins, whole rounds for every substep.
GraphShape graph_shape(const model::JobSpec& spec, uint64_t bins, const model::Mesh& mesh,
                       const model::DeliverySpec& delivery);

// Places what was selected as the strategy says, and hashes it. `check_fit` and `check_strategy`
// must have passed, and plan/place/callout.h must have nothing left to ask. `explained`, where
// given, gets the graph the plan was read out of.
Result<model::Plan> build_plan(const PlanInputs& inputs, StepIndex step, Selection selection,
                               Placer* placer, std::shared_ptr<const DGraph>* explained = nullptr);

}  // namespace overlord::plan
