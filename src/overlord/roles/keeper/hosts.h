// Where groups are wanted: loaders on whichever host has room, constructors on the host of their
// ranks. Pure.
#pragma once

#include "overlord/plan/partition/group_homes.h"
#include "overlord/roles/keeper/state.h"

namespace overlord::keeper {

// Those that may live on another host than their ranks.
std::vector<plan::HomelessGroup> movable_groups(const std::vector<protocol::ProcessRoles>& groups);

// `before`: where they were wanted, or live.
plan::GroupHomes wanted_homes(const KeeperJob& job, const KeeperState& state,
                              const plan::GroupHomes& before);

}  // namespace overlord::keeper
