// A host without ranks that is one of several that may lead: it leads, or runs loaders for the one
// that does until it is its turn, for as long as it is not told to end.
#pragma once

#include "overlord/node/keeper/keeper.h"
#include "overlord/node/keeper/life_line.h"
#include "overlord/protocol/job_codec.h"

namespace overlord::node {

// Ok when it was told to end, or has led and nothing is left to do; else why it cannot do its part.
Status lead_in_turn(KeeperArguments arguments, const protocol::JobFile& job, LifeLine& line);

}  // namespace overlord::node
