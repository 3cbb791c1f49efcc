// A role process: loaders or constructors of a job, spawned by the node and known by a name and a
// generation. It learns from the node which roles it hosts and where the others are, says every
// 200 ms that it lives, and ends with the node.
#pragma once

#include <cstdint>
#include <string>

#include "overlord/node/wire_options.h"
#include "overlord/protocol/job_codec.h"

namespace overlord::node {

struct RoleProcessArguments {
  std::string directory;  // of the job's sockets
  std::string name;
  uint32_t generation = 1;
  WireOptions wire;
  bool share_batches = true;  // of constructors, by the ranks of a group
};

// Runs until the node is gone. The exit status; what went wrong is printed for the node's log.
int run_role_process(const RoleProcessArguments& arguments, const protocol::JobFile& job);

}  // namespace overlord::node
