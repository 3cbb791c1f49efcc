// A job in memory that has no name, from which role processes read it.
#pragma once

#include "overlord/base/status.h"
#include "overlord/protocol/job_codec.h"
#include "overlord/transport/descriptor.h"

namespace overlord::node {

Result<transport::Descriptor> job_in_memory(const protocol::JobFile& job);

}  // namespace overlord::node
