// The pool that runs a job's batch transform in a process that hosts constructors.
#pragma once

#include <memory>

#include "overlord/base/status.h"
#include "overlord/model/job_spec.h"
#include "overlord/node/functions/transforming_encoder.h"
#include "overlord/runtime/batch_transform.h"

namespace overlord::node {

Result<std::unique_ptr<runtime::BatchTransform>> make_batch_transform(
    const model::JobSpec& spec, const TransformHosting& hosting);

}  // namespace overlord::node
