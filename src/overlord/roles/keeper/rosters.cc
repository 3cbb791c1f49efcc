#include "overlord/roles/keeper/rosters.h"

#include <algorithm>
#include <set>

#include "overlord/roles/keeper/shadows.h"

namespace overlord::keeper {

// What others say of ours is older. What a lead runs on this host is the lead's.
protocol::Roster HostRosters::all() const {
  protocol::Roster out = own;
  std::set<std::string> ours;
  for (const protocol::ProcessRoles& process : own.processes) ours.insert(process.name);
  for (const auto& [peer, others] : elsewhere) {
    out.term = std::max(out.term, others.term);
    for (const protocol::ProcessRoles& process : others.processes) {
      if (!ours.contains(process.name)) out.processes.push_back(process);
    }
  }
  return out;
}

bool HostRosters::knows_constructors(const std::vector<Rank>& ranks,
                                     const model::ViewTable& views) const {
  std::set<uint32_t> known;
  for (const protocol::ProcessRoles& process : all().processes) {
    if (process.host != host && process.wire.empty()) continue;
    for (const protocol::Address& role : process.roles) {
      if (role.kind == protocol::RoleKind::kConstructor) known.insert(role.index);
    }
  }
  return std::all_of(ranks.begin(), ranks.end(),
                     [&](Rank rank) { return known.contains(views.by_rank[rank].bucket); });
}

std::vector<protocol::ConstructorPlace> HostRosters::constructors() const {
  std::vector<protocol::ConstructorPlace> out;
  for (const protocol::ProcessRoles& process : all().processes) {
    const std::string wire = process.host == host ? "" : process.wire;
    for (const protocol::Address& role : process.roles) {
      if (role.kind != protocol::RoleKind::kConstructor) continue;
      out.push_back({role.index, process.name, process.generation, wire});
    }
  }
  return out;
}

bool names_tree(const protocol::Roster& roster, uint32_t version) {
  for (const protocol::ProcessRoles& process : roster.processes) {
    for (const protocol::Address& role : process.roles) {
      if (role.kind == protocol::RoleKind::kConstructor && protocol::tree_of(role) == version) {
        return true;
      }
    }
  }
  return false;
}

std::map<protocol::Address, uint32_t> later_generations(const protocol::Roster& roster) {
  std::map<protocol::Address, uint32_t> out;
  if (roster.term > 1) out[protocol::planner_address()] = roster.term;
  for (const protocol::ProcessRoles& process : roster.processes) {
    for (const protocol::Address& role : process.roles) {
      if (const uint32_t own = generation_of(process, role); own > 1) out[role] = own;
    }
  }
  return out;
}

std::vector<protocol::RoleGeneration> RestartBook::take(const protocol::Roster& roster) {
  std::vector<protocol::RoleGeneration> out;
  for (const protocol::ProcessRoles& process : roster.processes) {
    uint32_t& known_process = processes_.try_emplace(process.name, 1).first->second;
    for (const protocol::Address& role : process.roles) {
      const uint32_t own = generation_of(process, role);
      const auto [known, fresh] = roles_.try_emplace(role, own);
      if (fresh ? process.generation > known_process : own > known->second) {
        out.push_back({role, own});
      }
      known->second = std::max(known->second, own);
    }
    known_process = std::max(known_process, process.generation);
  }
  return out;
}

}  // namespace overlord::keeper
