// Which host each group of loaders lives on: as much of the work as the host has of all cores, and
// no group moves without need. Pure, over integers; hosts that come out the same are taken in their
// order, which is why the trainers' own stands first.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "overlord/base/fields.h"

namespace overlord::plan {

struct HostRoom {  // what a host gives to loaders
  std::string name;
  uint32_t cores = 1;

  OVERLORD_FIELDS(name, cores)
};

struct HomelessGroup {
  std::string name;
  uint32_t work = 1;               // beside the others
  std::vector<std::string> apart;  // groups that stand by for it, or that it stands by for

  OVERLORD_FIELDS(name, work, apart)
};

using GroupHomes = std::map<std::string, std::string>;  // host by group

// `before`: where they live now. A group whose host is not among `hosts` finds another; one whose
// host is stays, unless its move makes the busiest host less busy. Groups that stand by for each
// other share a host only where there is no other.
GroupHomes home_groups(const std::vector<HomelessGroup>& groups, const std::vector<HostRoom>& hosts,
                       const GroupHomes& before);

}  // namespace overlord::plan
