// The journal of a planner in the folder that the config names: a file for each planner and
// attempt, so that no two write to one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/host/role_host.h"
#include "overlord/protocol/journal_record.h"
#include "overlord/runtime/seams.h"

namespace overlord::node {

// Without a folder it is kept in memory, its last records alone.
Result<std::unique_ptr<runtime::Journal>> open_journal(const std::string& folder,
                                                       const host::HostStart& start);

// All records of such a file, a torn tail left out.
Result<std::vector<protocol::JournalRecord>> read_records(const std::string& path);

}  // namespace overlord::node
