// A host without ranks that has joined a job: it calls the lead, says what room it has, and runs
// the groups of loaders that the lead asks for. When the lead is gone it ends them and calls the
// next one.
#pragma once

#include "overlord/node/keeper/keeper.h"
#include "overlord/node/keeper/life_line.h"
#include "overlord/protocol/job_codec.h"

namespace overlord::node {

// Until it is told to end; ok then. Else why the lead wants nothing of it.
Status run_joined_host(const KeeperArguments& arguments, const protocol::JobFile& job,
                       LifeLine& line);

}  // namespace overlord::node
