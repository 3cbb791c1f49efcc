// What a constructor starts with: the ranks of its bucket in one tree, what they see, how large a
// step of theirs may be.
#pragma once

#include <vector>

#include "overlord/host/open_job.h"
#include "overlord/roles/constructor/role.h"
#include "overlord/roles/planner/state.h"

namespace overlord::host {

// The constructor of `bucket` in a tree whose first step is `first_step`; all but the versions, the
// generations of its peers, and how it is measured. `ranks`: all that the planner serves.
constructor::ConstructorStart constructor_start(const OpenJob& job, const planner::Tree& tree,
                                                uint32_t bucket, const std::vector<Rank>& ranks,
                                                StepIndex first_step);

}  // namespace overlord::host
