// The cluster that a node's role processes live in: child processes on this host.
#pragma once

#include <memory>
#include <string>

#include "overlord/base/status.h"
#include "overlord/node/keeper/keeper.h"
#include "overlord/runtime/cluster.h"

namespace overlord::node {

// `job`: a descriptor that each of them inherits; not owned.
Result<std::unique_ptr<runtime::Cluster>> start_role_cluster(const KeeperArguments& arguments,
                                                             const std::string& job_name, int job);

}  // namespace overlord::node
