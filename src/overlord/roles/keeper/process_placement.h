// Which roles share a process on one host. Many loaders live together; a source that is heavy, or
// that runs a user's code, lives apart (plan/partition/loader_groups.h), so that it neither slows
// nor kills others.
// Constructors live together, apart from all loaders, or with the loaders of light sources: then
// what they fetch goes from hand to hand, and dies with one process. A slot and its shadows are in
// processes of their own; where there are too few, more are made. Pure; the reasons are for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "overlord/model/job_spec.h"
#include "overlord/protocol/control.h"

namespace overlord::keeper {

struct PlacementOptions {
  uint32_t loader_processes = 1;       // over which the slots of light sources are dealt
  uint32_t constructor_processes = 1;  // over which buckets are dealt; 0: the light sources' own
  // Sources in processes of their own; those of a list share one.
  std::vector<std::vector<std::string>> isolated = {};
  bool loaders = true;      // false: they live on another host
  std::string prefix = {};  // of the names: no two hosts share one
  bool by_rule = true;  // what else lives apart is found by rule (plan/partition/loader_groups.h)
};

struct ProcessPlacement {
  std::vector<protocol::ProcessRoles> processes;
  std::vector<std::string> reasons;
};

// `buckets`: those with a rank on this host.
ProcessPlacement place_processes(const model::JobSpec& spec, const std::vector<uint32_t>& buckets,
                                 const PlacementOptions& options);

// Shadows for the slots of these processes, among them: never in a slot's own. Where there are
// fewer processes than a slot has homes, more are added, which have no names yet.
void deal_shadows(const model::JobSpec& spec, std::vector<protocol::ProcessRoles>* processes);

// Processes for the constructors of a later tree of the job, alone: some may be there already.
std::vector<protocol::ProcessRoles> place_tree(const model::JobSpec& spec,
                                               const model::ViewTable& views,
                                               const PlacementOptions& options);

// Buckets whose constructor is on the host of the `local` ones of `ranks`: where its first rank is.
std::vector<uint32_t> buckets_of_host(const model::ViewTable& views, const std::vector<Rank>& ranks,
                                      const std::vector<Rank>& local);

}  // namespace overlord::keeper
