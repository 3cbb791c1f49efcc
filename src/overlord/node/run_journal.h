// The journal of a run's planner. One in a folder tells the planner that comes after this one where
// to go on, if it is of the same run; else it begins from the trainers' state, and what was there
// is kept aside. Without a folder it is kept in memory, its last records alone.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/host/role_host.h"
#include "overlord/protocol/journal/journal_record.h"
#include "overlord/runtime/seams.h"

namespace overlord::node {

// The folder of one planner below the one that a config names: no two share one.
std::string journal_folder_of(const std::string& below, const Digest& config,
                              const std::string& planner);

// Claims the next term of `folder` for start->run: its planner's generation. What is there of that
// run and attempt is folded into start->folded. Refused by name: a run whose job has become another
// one, and a run that ranks say has begun (`begun`) where nothing was ever written.
Result<std::unique_ptr<runtime::Journal>> open_run_journal(const std::string& folder, bool begun,
                                                           host::HostStart* start);

// All records of a folder that count, a torn tail left out.
Result<std::vector<protocol::JournalRecord>> read_records(const std::string& folder);

}  // namespace overlord::node
