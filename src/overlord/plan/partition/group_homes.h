// Which host each group of loaders lives on. A host that lacks files of a group has none of it, and
// one that holds them on disks of its own has it as far as it has cores. Of the others the spare
// cores of hosts that have ranks come first, since what is read there stays near who needs it;
// hosts without ranks take what goes beyond; where there is more work than cores, all have as much
// of it as they have of the cores. No group moves without need. Pure, over integers; hosts that
// come out the same are taken in their order, which is why the lead's stands first.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "overlord/base/fields.h"
#include "overlord/model/source.h"

namespace overlord::plan {

struct HostRoom {  // what a host gives to loaders
  std::string name;
  uint32_t cores = 1;
  bool ranks = true;                                     // false: it has joined for its cores alone
  uint32_t most = std::numeric_limits<uint32_t>::max();  // groups that its memory can bear
  std::vector<std::string> lacks = {};                   // sources whose files it does not have
  std::vector<std::string> holds = {};  // those whose files lie on disks of its own

  OVERLORD_FIELDS(name, cores, ranks, most, lacks, holds)
};

struct HomelessGroup {
  std::string name;
  uint64_t millicores = 1000;             // thousandths of a core that it can keep busy
  std::vector<std::string> apart;         // groups that stand by for it, or that it stands by for
  std::vector<std::string> sources = {};  // that it reads

  OVERLORD_FIELDS(name, millicores, apart, sources)
};

using GroupHomes = std::map<std::string, std::string>;  // host by group

// `before`: where they live now. A group whose host is not among `hosts`, or lacks its files, finds
// another; one whose host is stays, unless another is near its files, or its move makes the busiest
// host less busy, or its host is not needed any more, or has more than it can bear: then the
// largest go. Groups that stand by for each other share a host only where there is no other, and
// none has more than it can bear where another can. A group whose files no host has lives anywhere:
// it will say so.
GroupHomes home_groups(const std::vector<HomelessGroup>& groups, const std::vector<HostRoom>& hosts,
                       const GroupHomes& before);

// Why each of them lives where it does, for people.
std::map<std::string, std::string> home_reasons(const std::vector<HomelessGroup>& groups,
                                                const std::vector<HostRoom>& hosts,
                                                const GroupHomes& homes);

// Cores that planner and constructors leave to loaders, by a rule of thumb; one at least.
uint32_t spare_cores(uint32_t cores, size_t constructors, bool plans);

// Thousandths of a core that one slot of each source can keep busy: its workers', or, where a run
// has measured every source, its part of all of them by what the source has cost.
std::vector<uint64_t> slot_millicores(const std::vector<model::Source>& sources);

}  // namespace overlord::plan
