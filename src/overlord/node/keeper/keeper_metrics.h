// How a node answers at its door of metrics: the door has a thread, what it tells belongs to the
// node's loop.
#pragma once

#include <functional>
#include <memory>

#include "overlord/node/keeper/keeper.h"
#include "overlord/node/status/metrics_door.h"
#include "overlord/node/status/status_codec.h"
#include "overlord/runtime/seams.h"

namespace overlord::node {

// Null when none is asked for, or none could be opened: that is said in the node's log, and the
// job goes on without. `status` runs on the loop.
std::unique_ptr<MetricsDoor> open_metrics(const KeeperArguments& arguments,
                                          std::function<void(runtime::Task)> on_loop,
                                          std::function<NodeStatus()> status);

}  // namespace overlord::node
