// What a plan and a microbatch of hybrid data parallelism say of their groups, as dicts of arrays.
#pragma once

#include <nanobind/nanobind.h>

#include "overlord/model/microbatch.h"
#include "overlord/model/plan.h"

namespace overlord::python {

// Groups, sequences and counts of a plan's layer; None where it has no slices.
nanobind::object hdp_groups(const model::Plan& plan);
// The group behind a microbatch and this rank's share of it; None where it has none.
nanobind::object hdp_share(const model::Microbatch& batch);

}  // namespace overlord::python
