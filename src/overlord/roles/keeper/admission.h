// Who may talk to a keeper, and which rank may come back alone to the others of its run.
#pragma once

#include <string>
#include <vector>

#include "overlord/protocol/control.h"
#include "overlord/roles/keeper/state.h"

namespace overlord::keeper {

// May this process talk to us?
Status admit(const KeeperState& state, const protocol::Hello& hello);

// Ranks of a lead's own host attach to it, those of others through a node that follows it. Which
// those are shows as they come; batches are laid out where their ranks are.
Status may_attach_so(const KeeperJob& job, const std::string& peer, const std::vector<Rank>& ranks);

// May these ranks go on where they were killed, while the others wait for them? What a constructor
// no longer has it refuses itself.
Status may_return(const KeeperJob& job, const KeeperState& state, const std::vector<Rank>& ranks);

}  // namespace overlord::keeper
