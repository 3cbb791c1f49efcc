// A host without ranks that has joined a job: it calls the lead, says what room it has, and runs
// the groups of loaders that the lead asks for. When the lead is gone it ends them and calls the
// next one; one that may lead itself looks whether it is its turn.
#pragma once

#include "overlord/node/keeper/keeper.h"
#include "overlord/node/keeper/life_line.h"
#include "overlord/protocol/job_codec.h"

namespace overlord::node {

// Until it is told to end, 0 then, or it is to lead, with the claim that it has made. Else why the
// lead wants nothing of it.
Result<uint32_t> run_joined_host(const KeeperArguments& arguments, const protocol::JobFile& job,
                                 LifeLine& line);

}  // namespace overlord::node
