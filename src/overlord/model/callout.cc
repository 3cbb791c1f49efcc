#include "overlord/model/callout.h"

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

}  // namespace overlord::model
