// A role process: loaders or constructors of a job, spawned by the node and known by a name and a
// generation. It learns from the node which roles it hosts and where the others are, and says every
// 200 ms that it lives. When the node dies it serves on and calls the next one, which adopts it; it
// ends when none has come in time, or when the job's directory is gone.
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
  int64_t orphan_ms = 0;      // how long it serves on without a node; 0: it dies with it
};

// Runs until the node has no use for it, or is gone for too long. The exit status; what went wrong
// is printed for the node's log.
int run_role_process(const RoleProcessArguments& arguments, const protocol::JobFile& job);

}  // namespace overlord::node
