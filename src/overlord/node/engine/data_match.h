// Whether the data of a saved state are those of a job: by the digests of their sources, and by
// those that builds before gave the same data. Looks into the index files where digests differ.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/host/open_job.h"
#include "overlord/protocol/state_codec.h"

namespace overlord::node {

// Sources of the job whose data are not those of the saved state, each with advice (empty, or
// beginning with "; "). Digests of before are replaced by those of now. `index_paths` in the order
// of the job's sources.
std::map<std::string, std::string> match_data(const host::OpenJob& job,
                                              const std::vector<std::string>& index_paths,
                                              protocol::ResumeState* saved);

// host::resume_from(), also of a state of before, and with advice.
Result<protocol::ResumeState> resume_from(const host::OpenJob& job,
                                          const std::vector<std::string>& index_paths,
                                          protocol::ResumeState saved,
                                          protocol::AllowedChanges allowed);

}  // namespace overlord::node
