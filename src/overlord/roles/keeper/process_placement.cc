#include "overlord/roles/keeper/process_placement.h"

#include <algorithm>
#include <map>
#include <set>

#include "overlord/base/check.h"
#include "overlord/plan/partition/loader_groups.h"

namespace overlord::keeper {
namespace {

std::vector<protocol::ProcessRoles> deal_slots(const model::JobSpec& spec,
                                               const plan::LoaderGroup& group) {
  OVERLORD_CHECK(group.processes > 0, "a group of sources has a process");
  std::vector<protocol::ProcessRoles> out(group.processes);
  uint32_t dealt = 0;
  for (const SourceIndex s : group.sources) {
    for (uint32_t slot = 0; slot < spec.sources[s].slots(); ++slot) {
      out[dealt++ % group.processes].roles.push_back(protocol::loader_address(s, slot));
    }
  }
  std::erase_if(out, [](const auto& process) { return process.roles.empty(); });
  return out;
}

uint32_t own_slots(const std::vector<protocol::ProcessRoles>& processes) {
  return static_cast<uint32_t>(std::count_if(processes.begin(), processes.end(),
                                             [](const auto& one) { return !one.roles.empty(); }));
}

}  // namespace

void deal_shadows(const model::JobSpec& spec, std::vector<protocol::ProcessRoles>* processes) {
  uint32_t most = 0;
  for (const protocol::ProcessRoles& process : *processes) {
    for (const protocol::Address& role : process.roles) {
      most = std::max(most, spec.sources[role.index].shadows);
    }
  }
  if (most == 0) return;
  processes->resize(std::max<size_t>(processes->size(), most + 1));
  for (size_t i = 0; i < processes->size(); ++i) {
    for (const protocol::Address& role : (*processes)[i].roles) {
      const uint32_t shadows = spec.sources[role.index].shadows;
      OVERLORD_CHECK(shadows < processes->size(), "a slot and its shadows share no process");
      for (uint32_t k = 1; k <= shadows; ++k) {  // behind its own, in a circle
        (*processes)[(i + k) % processes->size()].standby.push_back(role);
      }
    }
  }
}

ProcessPlacement place_processes(const model::JobSpec& spec, const std::vector<uint32_t>& buckets,
                                 const PlacementOptions& options) {
  ProcessPlacement out;
  const plan::GroupingRule rule{options.loader_processes, options.isolated, options.by_rule};
  std::vector<plan::LoaderGroup> groups;
  if (options.loaders) groups = plan::loader_groups(spec.sources, rule);
  uint32_t number = 0, homes = 0;  // of processes; those of the first group
  for (const plan::LoaderGroup& group : groups) {
    std::vector<protocol::ProcessRoles> processes = deal_slots(spec, group);
    deal_shadows(spec, &processes);  // those of a source that lives apart do so too
    if (number == 0) homes = own_slots(processes);
    for (protocol::ProcessRoles& process : processes) {
      process.name = options.prefix + "loaders-" + std::to_string(number++);
      out.processes.push_back(std::move(process));
    }
    out.reasons.push_back(group.reason);
  }
  if (options.constructor_processes == 0 && !groups.empty() && !groups.front().apart) {
    // Those of the light sources come first, and every one of them has a loader.
    OVERLORD_CHECK(0 < homes && homes <= out.processes.size(), "light sources have processes");
    for (size_t i = 0; i < buckets.size(); ++i) {
      out.processes[i % homes].roles.push_back(protocol::constructor_address(buckets[i]));
    }
    out.reasons.push_back(std::to_string(buckets.size()) + " constructors live with the loaders");
    return out;
  }
  const auto most = static_cast<uint32_t>(std::max<size_t>(1, buckets.size()));
  const uint32_t constructors = std::clamp(options.constructor_processes, 1u, most);
  std::vector<protocol::ProcessRoles> apart(constructors);
  for (size_t i = 0; i < buckets.size(); ++i) {
    apart[i % constructors].roles.push_back(protocol::constructor_address(buckets[i]));
  }
  for (uint32_t i = 0; i < constructors && !buckets.empty(); ++i) {
    apart[i].name = options.prefix + "constructors-" + std::to_string(i);
    out.processes.push_back(std::move(apart[i]));
  }
  out.reasons.push_back(std::to_string(buckets.size()) + " constructors share " +
                        std::to_string(constructors) +
                        (constructors == 1 ? " process" : " processes"));
  return out;
}

std::vector<protocol::ProcessRoles> place_tree(const model::JobSpec& spec,
                                               const model::ViewTable& views,
                                               const PlacementOptions& options) {
  const std::set<uint32_t> buckets = views.buckets();
  std::vector<protocol::ProcessRoles> out;
  for (protocol::ProcessRoles& process :
       place_processes(spec, {buckets.begin(), buckets.end()}, options).processes) {
    std::erase_if(process.roles, [](const protocol::Address& role) {
      return role.kind != protocol::RoleKind::kConstructor;
    });
    process.standby.clear();
    for (protocol::Address& role : process.roles) {
      role = protocol::constructor_address(role.index, views.tree_version);
    }
    if (!process.roles.empty()) out.push_back(std::move(process));
  }
  return out;
}

std::vector<uint32_t> buckets_of_host(const model::ViewTable& views, const std::vector<Rank>& ranks,
                                      const std::vector<Rank>& local) {
  std::map<uint32_t, Rank> first_of;
  for (const Rank rank : ranks) first_of.emplace(views.by_rank[rank].bucket, rank);
  std::vector<uint32_t> out;
  for (const auto& [bucket, rank] : first_of) {
    if (std::find(local.begin(), local.end(), rank) != local.end()) out.push_back(bucket);
  }
  return out;
}

}  // namespace overlord::keeper
