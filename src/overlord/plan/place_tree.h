// Placement: who gets which bin, and what of it each rank sees (law 2: it only moves, never
// selects). The simplest place tree: data axes give buckets, other axes decide each rank's view.
#pragma once

#include <memory>

#include "overlord/base/status.h"
#include "overlord/model/job_spec.h"
#include "overlord/model/mesh.h"
#include "overlord/model/plan.h"
#include "overlord/plan/selection.h"

namespace overlord::plan {

// Axes whose ranks see different samples: "dp" and every axis named "dp_...".
bool is_data_axis(std::string_view name);
uint32_t bucket_count(const model::Mesh& mesh);

// Does this job fit this mesh? Refused with the valid values (bins against DP x microbatch size,
// align and context against the context-parallel slicing).
Status check_fit(const model::JobSpec& spec, const model::Mesh& mesh,
                 const model::DeliverySpec& delivery);

std::shared_ptr<const model::ViewTable> make_views(const model::Mesh& mesh,
                                                   const model::DeliverySpec& delivery,
                                                   uint32_t tree_version);

// Puts content, placement and views together and hashes them. `check_fit` must have passed.
model::Plan build_plan(const model::JobSpec& spec, const model::Mesh& mesh,
                       const model::DeliverySpec& delivery,
                       std::shared_ptr<const model::ViewTable> views, model::Versions versions,
                       StepIndex step, Selection selection);

}  // namespace overlord::plan
