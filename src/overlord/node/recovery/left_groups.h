// LeftGroups: what a node says in its directory, in the file `groups`, of the role processes that
// it keeps, so that the node after it finds them when it has died.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "overlord/base/fields.h"
#include "overlord/base/ids.h"
#include "overlord/base/status.h"
#include "overlord/node/recovery/living_process.h"
#include "overlord/runtime/cluster.h"

namespace overlord::node {

struct LeftGroup {
  std::string name;
  uint32_t generation = 1;
  LivingProcess process;

  OVERLORD_FIELDS(name, generation, process)
};

struct LeftGroups {
  uint32_t keeper = 0;   // generation of the keeper that says it; 0: there was none
  std::string run;       // that its groups serve; empty: none yet
  uint32_t attempt = 0;  // of the trainers
  std::vector<LeftGroup> groups;
  std::vector<Rank> local;  // ranks of the run that had come to this host

  OVERLORD_FIELDS(keeper, run, attempt, groups, local)

  std::vector<runtime::GroupPlacement> placements() const;
};

Status leave_groups(const std::string& directory, const LeftGroups& groups);
// What the node before this one has left; nothing: there was none.
Result<LeftGroups> find_groups(const std::string& directory);
// Nothing of them is left afterwards.
void end_groups(const LeftGroups& groups);

}  // namespace overlord::node
