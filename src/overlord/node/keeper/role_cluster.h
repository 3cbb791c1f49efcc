// The cluster that a node's role processes live in: child processes on this host, and those of the
// node before it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/node/keeper/keeper.h"
#include "overlord/node/process_cluster.h"

namespace overlord::node {

// `job`: a descriptor that each of them inherits; not owned. `changed`: who lives, on its thread.
Result<std::unique_ptr<ProcessCluster>> start_role_cluster(
    const KeeperArguments& arguments, const std::string& job_name, int job,
    std::function<void(const std::vector<LeftGroup>&)> changed = {});

}  // namespace overlord::node
