// The second layer of a plan: an encoder whose samples have owners of their own (two_modules.h),
// read out of a graph over the same samples as the backbone's. It moves only: what a step holds and
// where the backbone's samples are is decided before, and content_hash does not know of it.
#pragma once

#include <memory>

#include "overlord/base/status.h"
#include "overlord/model/job_spec.h"
#include "overlord/model/mesh.h"
#include "overlord/model/plan.h"
#include "overlord/plan/balance/balance.h"
#include "overlord/plan/place/dgraph.h"

namespace overlord::plan {

// Can this encoder be placed on this mesh, and does the job read what it needs?
Status check_encoder(const model::JobSpec& spec, const model::Mesh& mesh);

// Who runs the encoder and who needs its output, given what ranks see of the backbone. Pruning
// counts per layer: a broadcast leaves out an encoder's ranks along axes that do not tell encoders
// apart, and later pipeline stages encode only where the axis tells them apart.
std::shared_ptr<const model::EncoderTable> make_encoder_table(
    const model::EncoderStrategy& strategy, const model::Mesh& mesh,
    const model::DeliverySpec& delivery, const model::ViewTable& backbone);

// `graph` is the backbone's, placed, with the step's columns; `backbone` has its placements. The
// graph that the layer is read out of is kept with `graph`.
Result<model::Layer> build_encoder_layer(const model::EncoderStrategy& strategy,
                                         const model::Layer& backbone,
                                         std::shared_ptr<const model::EncoderTable> table,
                                         Balancer* balancer, DGraph* graph);

}  // namespace overlord::plan
