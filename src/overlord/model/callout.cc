#include "overlord/model/callout.h"

#include <algorithm>

namespace overlord::model {

std::string_view callout_kind_name(CalloutKind kind) {
  switch (kind) {
    case CalloutKind::kCost:
      return "cost";
    case CalloutKind::kBalance:
      return "balance";
    case CalloutKind::kPlan:
      return "plan_raw";
  }
  return "unknown";
}

bool CalloutRequest::fits() const {
  const auto of_samples = [this](const MetaColumn& column) {
    return column.values.size() == samples.size();
  };
  return std::all_of(columns.begin(), columns.end(), of_samples) &&
         std::is_sorted(bin_ends.begin(), bin_ends.end()) && !bin_ends.empty() &&
         bin_ends.back() == samples.size() &&
         (sample_costs.empty() || sample_costs.size() == samples.size()) &&
         (bin_costs.empty() || bin_costs.size() == bin_ends.size());
}

}  // namespace overlord::model
