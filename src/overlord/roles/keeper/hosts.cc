#include "overlord/roles/keeper/hosts.h"

#include <algorithm>
#include <map>
#include <set>

#include "overlord/base/check.h"
#include "overlord/roles/keeper/peer_names.h"
#include "overlord/roles/keeper/process_placement.h"
#include "overlord/roles/keeper/step.h"

namespace overlord::keeper {
namespace {

using protocol::ProcessRoles;

constexpr uint64_t kCore = 1000;

std::vector<plan::HostRoom> rooms_of(const KeeperState& state) {
  const protocol::HostGift& own = state.serving()->gives;
  std::vector<plan::HostRoom> out = {{"", std::max(1u, own.cores)}};
  out[0].lacks = own.lacks;
  out[0].holds = own.holds;
  for (const auto& [peer, host] : state.hosts()) {
    out.push_back(
        {peer, host.gives.cores, host.ranks, host.most, host.gives.lacks, host.gives.holds});
  }
  return out;
}

std::vector<plan::HomelessGroup> movable_groups(const KeeperState& state) {
  return keeper::movable_groups(state.serving()->supervisor.groups(), state.job().slot_millicores,
                                state.job().welcome.source_names);
}

}  // namespace

std::vector<ProcessRoles> groups_for(const KeeperJob& job, const std::vector<Rank>& local) {
  std::vector<ProcessRoles> out = job.groups;
  if (local == job.local) return out;
  OVERLORD_CHECK(job.leads && !job.alone, "only a lead among others finds out who has come");
  OVERLORD_CHECK(local.size() < job.local.size(), "who has come is one that may");
  const std::vector<uint32_t> here = buckets_of_host(*job.views, job.ranks, local);
  for (ProcessRoles& group : out) {
    std::erase_if(group.roles, [&](const protocol::Address& role) {
      return role.kind == protocol::RoleKind::kConstructor &&
             std::find(here.begin(), here.end(), role.index) == here.end();
    });
  }
  std::erase_if(
      out, [](const ProcessRoles& group) { return group.roles.empty() && group.standby.empty(); });
  return out;
}

size_t constructors_of(const std::vector<ProcessRoles>& groups) {
  size_t count = 0;
  for (const ProcessRoles& group : groups) {
    for (const protocol::Address& role : group.roles) {
      count += role.kind == protocol::RoleKind::kConstructor ? 1 : 0;
    }
  }
  return count;
}

std::vector<plan::HomelessGroup> movable_groups(const std::vector<ProcessRoles>& groups,
                                                const std::vector<uint64_t>& slot_millicores,
                                                const std::vector<std::string>& sources) {
  std::map<protocol::Address, std::string> active;
  for (const ProcessRoles& group : groups) {
    for (const protocol::Address& role : group.roles) active[role] = group.name;
  }
  std::map<std::string, std::set<std::string>> apart;
  for (const ProcessRoles& group : groups) {
    for (const protocol::Address& role : group.standby) {
      const std::string& other = active[role];
      OVERLORD_CHECK(other != group.name, "a slot does not stand by for itself");
      apart[group.name].insert(other);
      apart[other].insert(group.name);
    }
  }
  std::vector<plan::HomelessGroup> out;
  for (const ProcessRoles& group : groups) {
    if (constructors_of({group}) > 0) continue;  // batches are shared in memory with their ranks
    if (group.roles.empty() && group.standby.empty()) continue;  // its constructors have retired
    const std::set<std::string>& others = apart[group.name];
    uint64_t work = 0;
    for (const protocol::Address& role : group.roles) {
      work += role.index < slot_millicores.size() ? slot_millicores[role.index] : kCore;
    }
    std::set<std::string> reads;
    for (const auto* roles : {&group.roles, &group.standby}) {
      for (const protocol::Address& role : *roles) {
        if (role.index < sources.size()) reads.insert(sources[role.index]);
      }
    }
    out.push_back({group.name,
                   std::max<uint64_t>(1, work),
                   {others.begin(), others.end()},
                   {reads.begin(), reads.end()}});
  }
  return out;
}

plan::GroupHomes wanted_homes(const KeeperState& state, const plan::GroupHomes& before) {
  return plan::home_groups(movable_groups(state), rooms_of(state), before);
}

std::map<std::string, std::string> reasons_of_homes(const KeeperState& state) {
  return plan::home_reasons(movable_groups(state), rooms_of(state), state.serving()->wanted());
}

// --- Hosts that come and go ---------------------------------------------------------------------

void Step::hear(const std::string& peer, const protocol::Join& join) {
  if (!job_.leads || !is_joined_host(peer)) return;
  if (join.job != job_.job || join.gives.cores == 0) {
    return tell(peer, protocol::Refused{Status(
                          Code::kVersionMismatch,
                          "the job of this host differs from the one that is served: compare their "
                          "configs, the mesh and the indexed data")});
  }
  apply(HostJoined{peer, join.gives, std::nullopt});
  add(Say{peer + " has joined with " + std::to_string(join.gives.cores) + " cores"});
  settle_homes();
}

// Its groups are told of by the cluster, and come again elsewhere.
void Step::host_left(const std::string& peer, bool lost) {
  if (!state_.hosts().contains(peer)) return;
  apply(HostLeft{peer, lost});
  add(Say{peer + (lost ? " is lost" : " has left")});
  settle_homes();
}

// One group at a time: what has been asked for before must have gone before more is.
void Step::hear(const std::string& peer, const protocol::HostPressed& word) {
  const auto host = state_.hosts().find(peer);
  if (serving() == nullptr || host == state_.hosts().end()) return;
  uint32_t wanted = 0, leaving = 0;
  for (const auto& [name, home] : serving()->homes) {
    wanted += home.wanted == peer ? 1 : 0;
    leaving += home.lives == peer && home.wanted != peer ? 1 : 0;
  }
  if (word.pressed ? wanted == 0 || leaving > 0 : host->second.most > wanted) return;
  apply(HostBears{peer, word.pressed ? wanted - 1 : wanted + 1});
  add(Say{peer + (word.pressed ? " is short of memory: it has one group less"
                               : " has memory again: it may have one group more")});
  settle_homes();
}

// A group that is wanted elsewhere ends where it is; where it has shadows they go on at once. One
// whose host has left ends by itself.
void Step::settle_homes() {
  if (serving() == nullptr || state_.over()) return;
  apply(GroupsHomed{wanted_homes(state_, serving()->wanted())});
  bool promoted = false;
  for (const auto& [name, home] : serving()->homes) {
    if (!home.lives || home.lives == home.wanted) continue;
    if (!home.lives->empty() && !state_.hosts().contains(*home.lives)) continue;
    add(Say{name + " moves to " + (home.wanted.empty() ? "the lead's host" : home.wanted)});
    apply(GroupMoved{name});
    add(Kill{name});
    promoted = promote_from(name) || promoted;
  }
  if (promoted) groups_changed();
}

}  // namespace overlord::keeper
