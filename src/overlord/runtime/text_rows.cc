#include "overlord/runtime/text_rows.h"

#include <algorithm>
#include <string>

namespace overlord::runtime {

Status check_text_rows(const TextRows& rows) {
  const uint64_t last = rows.ends.empty() ? 0 : rows.ends.back();
  if (last != rows.bytes.size()) {
    return invalid_argument("text rows do not end where their bytes do: " + std::to_string(last) +
                            " and " + std::to_string(rows.bytes.size()));
  }
  const auto fall = std::is_sorted_until(rows.ends.begin(), rows.ends.end());
  if (fall != rows.ends.end()) {
    return invalid_argument("text rows have an end before the previous one: row " +
                            std::to_string(fall - rows.ends.begin()));
  }
  return {};
}

}  // namespace overlord::runtime
