// Asks a running node what it does, without attaching to it.
#pragma once

#include <cstdint>
#include <string>

#include "overlord/base/status.h"
#include "overlord/node/status/status_codec.h"

namespace overlord::node {

// kUnavailable when no node answers in time.
Result<NodeStatus> ask_node(const std::string& directory, int64_t timeout_ms);

}  // namespace overlord::node
