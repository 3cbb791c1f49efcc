#include "overlord/node/engine/late_rows.h"

namespace overlord::node {

std::vector<BadRowLimit> bad_row_limits(const model::JobSpec& spec) {
  std::vector<BadRowLimit> out;
  for (const model::Source& source : spec.sources) {
    out.push_back({source.name, source.bad_rows_allowed});
  }
  return out;
}

Status late_rows_over_budget(const std::vector<loader::QuarantineNote>& notes,
                             const std::vector<BadRowLimit>& limits,
                             const model::StreamState& at_end) {
  std::vector<uint64_t> late(limits.size(), 0);
  for (const loader::QuarantineNote& note : notes) {
    const SourceIndex s = note.id.source;
    if (!note.late || s >= limits.size()) continue;
    const uint64_t seen = ++late[s] + at_end.cursors[s].bad;
    if (seen <= model::bad_rows_budget(limits[s].allowed, at_end.cursors[s].pass)) continue;
    return {Code::kBudgetExceeded, "source " + limits[s].source + ": " + std::to_string(seen) +
                                       " bad rows, allowed " + std::to_string(limits[s].allowed) +
                                       " a pass; last: " + note.reason +
                                       "; raise bad_rows_allowed or repair the data"};
  }
  return {};
}

}  // namespace overlord::node
