// What a node tells those that it serves, the roster of all hosts that it tells them from, and what
// it says of who is waited for.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "overlord/host/open_job.h"
#include "overlord/protocol/control.h"
#include "overlord/protocol/job_codec.h"
#include "overlord/roles/planner/probe.h"

namespace overlord::node {

// The processes of this host, and of the others as far as their nodes have told.
struct HostRosters {
  uint32_t host = 0;  // its first rank
  protocol::Roster own;
  std::map<std::string, protocol::Roster> elsewhere;  // by node of another host

  protocol::Roster all() const;
  // Every one of these ranks can be told where its batches come from.
  bool knows_constructors(const std::vector<Rank>& ranks, const model::ViewTable& views) const;
};

// Of roles that are not in their first generation.
std::map<protocol::Address, uint32_t> later_generations(const protocol::Roster& roster);

// All but versions and state, which belong to the attempt.
protocol::Welcome make_welcome(const host::OpenJob& job, const model::RuntimeOptions& runtime,
                               const model::ViewTable& views, const HostRosters& rosters,
                               const std::vector<Rank>& ranks);

// Whether a node that serves so many ranks can plan this job.
Status check_node_can_plan(const host::OpenJob& job, size_t ranks);

// What everybody waits for, for people; empty: nothing. `planner`: null where another host plans.
std::string what_is_waited_for(const std::vector<Rank>& gone, const model::JobSpec& spec,
                               const planner::PlannerProbe* planner);

}  // namespace overlord::node
