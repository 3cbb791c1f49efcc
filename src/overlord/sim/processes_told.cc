// What processes, trainers and the planner do with what a keeper tells them.
#include <algorithm>
#include <set>

#include "overlord/roles/keeper/rosters.h"
#include "overlord/roles/keeper/shadows.h"
#include "overlord/sim/processes.h"

namespace overlord::sim {

using protocol::Address;
using protocol::RoleKind;

void Processes::hear(const std::string& peer, const protocol::Control& control) {
  const size_t index = named(peer);
  if (links_.broken(0, index)) return;
  // The next planner knows it, also where this one is frozen and dies before it has read it.
  const auto* newest = std::get_if<protocol::Roster>(&control);
  if (index == 0 && newest != nullptr) processes_[0].roster = *newest;
  if (processes_[index].frozen) {
    processes_[index].held.emplace_back([this, peer, control] { hear(peer, control); });
    return;
  }
  if (const auto* roster = std::get_if<protocol::Roster>(&control)) {
    protocol::Roster told = *roster;
    const bool unraised = weather_.mutant == Mutant::kPromotedKeepsGeneration;
    for (protocol::ProcessRoles& one : told.processes) {
      for (auto& moved : one.moved) moved.generation -= unraised ? 1 : 0;
    }
    on_roster(index, told);
  }
  if (const auto* welcome = std::get_if<protocol::Welcome>(&control)) on_welcome(index, *welcome);
  if (const auto* tree = std::get_if<protocol::TreeTold>(&control)) {
    // In order: one may have been told to the generation before, and come late.
    std::vector<uint32_t>& trees = processes_[index].trees;
    if (std::find(trees.begin(), trees.end(), tree->version) == trees.end()) {
      trees.insert(std::upper_bound(trees.begin(), trees.end(), tree->version), tree->version);
    }
    if (processes_[index].host) take_trees(index);
  }
}

const protocol::ProcessRoles& Processes::own(const Process& process) const {
  static const protocol::ProcessRoles none;
  for (const protocol::ProcessRoles& one : process.roster.processes) {
    if (one.name == process.name) return one;
  }
  return none;
}

// A slot that moves is not where it was: who has said something is told by its generation.
std::vector<protocol::RoleGeneration> Processes::own_loaders(size_t index) {
  std::vector<protocol::RoleGeneration> out;
  const protocol::ProcessRoles& mine = own(processes_[index]);
  for (const Address& role : mine.roles) {
    if (role.kind != RoleKind::kLoader) continue;
    out.push_back({role, keeper::generation_of(mine, role)});
    senders_[{role, out.back().generation}] = {index, processes_[index].generation};
  }
  return out;
}

void Processes::begin_group(size_t index) {
  Process& process = processes_[index];
  if (!process.opened) return;
  host::HostedRoles roles = nothing();
  for (const protocol::RoleGeneration& one : own_loaders(index)) {
    roles.loaders->push_back(one.role);
  }
  roles.standby = own(process).standby;
  roles.loaders->insert(roles.loaders->end(), roles.standby.begin(), roles.standby.end());
  for (const Address& role : own(process).roles) {
    if (role.kind != RoleKind::kConstructor || protocol::tree_of(role) != 1) continue;
    roles.constructors->push_back(role.index);
  }
  begin(index, roles, process.roster);
}

void Processes::on_roster(size_t index, const protocol::Roster& roster) {
  Process& process = processes_[index];
  std::map<std::string, uint32_t> generations;
  for (const protocol::ProcessRoles& one : roster.processes) generations[one.name] = one.generation;
  // One for the generation before, or for a trainer that has not been welcomed.
  if (process.keeps && generations[process.name] != process.generation) return;
  if (index == 0) process.roster = roster;  // also for the next planner
  if (!process.keeps && !process.host) return;
  const bool tree_waits =
      !process.trees.empty() && !keeper::names_tree(process.roster, process.trees.back());
  process.roster = roster;
  if (!process.host) return begin_group(index);
  for (const auto& [name, generation] : generations) reach(index, named(name), generation);
  if (process.keeps) {
    process.terms.clear();  // those that are made anew here have heard nothing
    seen_.promotions += process.host->settle_loaders(own_loaders(index), own(process).standby);
  }
  for (const protocol::RoleGeneration& restarted : process.restarts.take(roster)) {
    tell(index, restarted);
  }
  if (!process.keeps) return;
  const std::vector<Address>& mine = own(process).roles;
  for (const auto& [address, probe] : process.host->constructors()) {
    if (std::find(mine.begin(), mine.end(), address) != mine.end()) continue;
    process.host->retire(address);
    ++seen_.retired;
  }
  if (tree_waits) take_trees(index);
}

void Processes::on_welcome(size_t index, const protocol::Welcome& welcome) {
  Process& process = processes_[index];
  process.run = welcome.run;
  if (process.host || process.dead) return;  // by a keeper before, or too late
  protocol::Roster known;
  for (const protocol::ConstructorPlace& place : welcome.constructors) {
    known.processes.push_back({place.process, place.generation, {}});
  }
  begin(index, process.roles, known);
}

void Processes::take_trees(size_t index) {
  Process& process = processes_[index];
  for (const uint32_t version : process.trees) {
    const auto change = std::find_if(trees_.begin(), trees_.end(),
                                     [&](const auto& one) { return one.tree.version == version; });
    std::vector<uint32_t> buckets;
    for (const Address& role : own(process).roles) {
      if (role.kind != RoleKind::kConstructor) continue;
      if (protocol::tree_of(role) == version) buckets.push_back(role.index);
    }
    process.host->take_tree(*change, buckets, process.generation);
  }
  if (process.trees.empty()) return;
  if (process.keeps && !keeper::names_tree(process.roster, process.trees.back())) return;
  keeping_->say(process.name,
                keeper::Heard{process.name, protocol::TreeTaken{process.trees.back()}});
}

// Constructors of a later tree live in the processes that had those of the first.
void Processes::change_tree(const planner::TreeChanged& change, std::function<void()> ready) {
  std::vector<size_t> homes;
  for (size_t i = 0; i < processes_.size(); ++i) {
    if (!processes_[i].roles.constructors->empty()) homes.push_back(i);
  }
  keeper::TreePlaced placed{
      {change.tree.version, change.first_step, {}, {}, change.tree.ranks, change.again}, {}};
  size_t next = 0;
  for (const uint32_t bucket : change.tree.views->buckets()) {
    const Address address = protocol::constructor_address(bucket, change.tree.version);
    const size_t home = homes[next++ % homes.size()];
    where_[address] = home;
    placed.groups.push_back({processes_[home].name, 1, {address}});
  }
  tree_ready_ = std::move(ready);
  if (trees_.empty() || trees_.back().tree.version < change.tree.version) {
    trees_.push_back(change);
    placed_trees_.push_back(placed);
  }
  keeping_->say("planner", keeper::TreeChanged{placed});
}

void Processes::tree_ready(uint32_t version) {
  if (processes_[0].frozen) {
    processes_[0].held.emplace_back([this, version] { tree_ready(version); });
    return;
  }
  if (!tree_ready_ || trees_.back().tree.version != version) return;
  std::exchange(tree_ready_, nullptr)();
}

void Processes::retire(const Address& constructor) {
  const bool told = std::find(retired_.begin(), retired_.end(), constructor) != retired_.end();
  if (!told) retired_.push_back(constructor);
  keeping_->say("planner", keeper::ConstructorRetired{constructor});
}

keeper::Begun Processes::begun() const {
  keeper::Begun out;
  out.run = "the run";
  out.trees = placed_trees_;
  out.retired = retired_;
  return out;
}

void Processes::call(size_t index) {
  const Process& process = processes_[index];
  if (process.opened) {
    protocol::Hello hello;
    hello.name = process.name;
    hello.generation = process.generation;
    keeping_->say(process.name, keeper::Connected{hello});
  } else if (!process.roles.planner && !process.keeps && !process.dead) {
    protocol::Attach attach;
    attach.attempt = 1;
    attach.run = process.run;
    attach.ranks = *process.roles.clients;
    keeping_->say(process.name, keeper::Heard{process.name, attach});
  }
}

void Processes::call_again() {
  for (size_t i = 0; i < processes_.size(); ++i) call(i);
}

}  // namespace overlord::sim
