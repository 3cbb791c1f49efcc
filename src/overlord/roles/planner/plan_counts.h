// What the counters say of plans that were told.
#pragma once

#include "overlord/model/plan.h"
#include "overlord/roles/planner/probe.h"

namespace overlord::planner {

void count_plan(const model::Plan& plan, PlannerProbe* probe);

}  // namespace overlord::planner
