// What a node tells all those that it serves alike, whether it can serve them, and what it says of
// who is waited for.
#pragma once

#include <string>
#include <vector>

#include "overlord/host/open_job.h"
#include "overlord/node/engine/engine.h"
#include "overlord/protocol/control.h"
#include "overlord/protocol/job_codec.h"
#include "overlord/roles/planner/probe.h"

namespace overlord::node {

// What belongs to the job, not to the attempt or to the ranks.
protocol::Welcome make_welcome(const host::OpenJob& job, const model::RuntimeOptions& runtime,
                               const model::ViewTable& views);

// Whether a node that serves these ranks can plan this job.
Status check_node_can_plan(const host::OpenJob& job, const std::vector<Rank>& ranks);

// What everybody waits for, for people; empty: nothing. `planner`: null where another host plans.
std::string what_is_waited_for(const std::vector<Rank>& gone, const model::JobSpec& spec,
                               const planner::PlannerProbe* planner);

}  // namespace overlord::node
