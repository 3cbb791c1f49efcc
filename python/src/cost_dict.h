// Cost models as plain dicts: the data a strategy stores.
#pragma once

#include <nanobind/nanobind.h>

#include "overlord/model/cost_model.h"

namespace overlord::python {

model::CostModel cost_model_of(const nanobind::dict& data);

}  // namespace overlord::python
