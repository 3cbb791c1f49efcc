// A job in memory that has no name, from which role processes read it.
#pragma once

#include "overlord/base/status.h"
#include "overlord/protocol/job_codec.h"
#include "overlord/runtime/descriptor.h"

namespace overlord::node {

Result<runtime::Descriptor> job_in_memory(const protocol::JobFile& job);
// Processes that are started together share the descriptor and with it its position, which is
// neither asked for nor moved here.
Result<protocol::JobFile> read_job(int memory);

}  // namespace overlord::node
