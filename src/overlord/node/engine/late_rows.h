// Rows found bad after the last step was planned have no step left to stop before: the end of the
// stream itself says so, whichever engine served it.
#pragma once

#include <string>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/model/job_spec.h"
#include "overlord/model/stream_state.h"
#include "overlord/roles/loader/role.h"

namespace overlord::node {

// By source: what model::bad_rows_budget needs to know of it, and its name.
struct BadRowLimit {
  std::string source;
  uint32_t allowed = 0;  // a pass
};

std::vector<BadRowLimit> bad_row_limits(const model::JobSpec& spec);

Status late_rows_over_budget(const std::vector<loader::QuarantineNote>& notes,
                             const std::vector<BadRowLimit>& limits,
                             const model::StreamState& at_end);

}  // namespace overlord::node
