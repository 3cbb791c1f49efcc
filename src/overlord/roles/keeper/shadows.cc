#include "overlord/roles/keeper/shadows.h"

#include <algorithm>

#include "overlord/base/check.h"

namespace overlord::keeper {
namespace {

using protocol::Address;
using protocol::ProcessRoles;

bool has(const std::vector<Address>& roles, const Address& role) {
  return std::find(roles.begin(), roles.end(), role) != roles.end();
}

void set_generation(const Address& role, uint32_t generation, ProcessRoles* process) {
  std::erase_if(process->moved, [&](const auto& one) { return one.role == role; });
  if (generation != process->generation) process->moved.push_back({role, generation});
}

ProcessRoles& named(const std::string& name, std::vector<ProcessRoles>* groups) {
  const auto found = std::find_if(groups->begin(), groups->end(),
                                  [&](const auto& group) { return group.name == name; });
  OVERLORD_CHECK(found != groups->end(), "a slot moves between groups of this job");
  return *found;
}

bool stands_by(const std::vector<ProcessRoles>& groups, const Address& role) {
  return std::any_of(groups.begin(), groups.end(),
                     [&](const auto& group) { return has(group.standby, role); });
}

}  // namespace

uint32_t generation_of(const ProcessRoles& process, const Address& role) {
  for (const protocol::RoleGeneration& one : process.moved) {
    if (one.role == role) return one.generation;
  }
  return process.generation;
}

std::vector<Promotion> promotions(const std::vector<ProcessRoles>& groups, const std::string& lost,
                                  const Lives& lives) {
  std::vector<Promotion> out;
  for (const ProcessRoles& group : groups) {
    if (group.name != lost) continue;
    for (const Address& role : group.roles) {
      const auto home = std::find_if(groups.begin(), groups.end(), [&](const auto& other) {
        return other.name != lost && has(other.standby, role) && lives(other);
      });
      if (home == groups.end()) continue;
      out.push_back({role, lost, home->name, generation_of(group, role) + 1});
    }
  }
  return out;
}

std::string text_of(const Promotion& promotion, const std::vector<std::string>& sources) {
  const uint32_t source = promotion.role.index;
  const std::string name = source < sources.size() ? sources[source] : std::to_string(source);
  return "loader " + std::to_string(promotion.role.slot) + " of source " + name + " goes on in " +
         promotion.to + ", generation " + std::to_string(promotion.generation) + ": " +
         promotion.from + " is lost";
}

void promote(const Promotion& promotion, std::vector<ProcessRoles>* groups) {
  ProcessRoles& from = named(promotion.from, groups);
  ProcessRoles& to = named(promotion.to, groups);
  OVERLORD_CHECK(has(from.roles, promotion.role) && has(to.standby, promotion.role),
                 "a slot goes from where it is active to where it stands by");
  OVERLORD_CHECK(generation_of(from, promotion.role) < promotion.generation,
                 "a slot that moves is in a later generation");
  std::erase(from.roles, promotion.role);
  std::erase_if(from.moved, [&](const auto& one) { return one.role == promotion.role; });
  from.standby.push_back(promotion.role);
  std::erase(to.standby, promotion.role);
  to.roles.push_back(promotion.role);
  std::sort(to.roles.begin(), to.roles.end());  // loaders come before constructors
  set_generation(promotion.role, promotion.generation, &to);
}

void start_again(ProcessRoles* group) {
  ++group->generation;
  for (const protocol::RoleGeneration& one : std::vector(group->moved)) {
    set_generation(one.role, one.generation + 1, group);
  }
}

void adopt(const std::vector<ProcessRoles>& groups, uint32_t generation, ProcessRoles* group) {
  const ProcessRoles before = *group;
  group->generation = generation;
  for (const Address& role : before.roles) {
    if (stands_by(groups, role)) set_generation(role, generation_of(before, role), group);
  }
}

uint32_t next_generation(const std::vector<ProcessRoles>& groups) {
  uint32_t latest = 0;
  for (const ProcessRoles& group : groups) {
    latest = std::max(latest, group.generation);
    for (const protocol::RoleGeneration& one : group.moved) {
      latest = std::max(latest, one.generation);
    }
  }
  return latest + 1;
}

Protection protection(const std::vector<ProcessRoles>& groups, const Lives& lives) {
  Protection out;
  for (const ProcessRoles& group : groups) {
    for (const Address& role : group.roles) {
      if (!stands_by(groups, role)) continue;
      const bool shadowed = std::any_of(groups.begin(), groups.end(), [&](const auto& other) {
        return has(other.standby, role) && lives(other);
      });
      ++(shadowed ? out.shadowed : out.unprotected);
    }
  }
  return out;
}

}  // namespace overlord::keeper
