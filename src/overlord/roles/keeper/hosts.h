// Where groups are wanted: loaders on whichever host has room, constructors on the host of their
// ranks. Pure.
#pragma once

#include "overlord/plan/partition/group_homes.h"
#include "overlord/roles/keeper/state.h"

namespace overlord::keeper {

// Those that may live on another host than their ranks. `slot_millicores`: as plan says them
// of sources; a slot of one that it does not name keeps a core busy. `sources`: their names.
std::vector<plan::HomelessGroup> movable_groups(const std::vector<protocol::ProcessRoles>& groups,
                                                const std::vector<uint64_t>& slot_millicores,
                                                const std::vector<std::string>& sources = {});

// What of a lead's own groups these ranks, which have come to its host, leave to do: others have
// their constructors where they are.
std::vector<protocol::ProcessRoles> groups_for(const KeeperJob& job,
                                               const std::vector<Rank>& local);

size_t constructors_of(const std::vector<protocol::ProcessRoles>& groups);

// `before`: where they were wanted, or live.
plan::GroupHomes wanted_homes(const KeeperState& state, const plan::GroupHomes& before);
// Why they are wanted there, by group.
std::map<std::string, std::string> reasons_of_homes(const KeeperState& state);

}  // namespace overlord::keeper
