#include "overlord/protocol/messages.h"

namespace overlord::protocol {

std::string to_text(const Address& address) {
  switch (address.kind) {
    case RoleKind::kPlanner:
      return "planner";
    case RoleKind::kLoader:
      return "loader " + std::to_string(address.index) + "/" + std::to_string(address.slot);
    case RoleKind::kConstructor:
      return "constructor " + std::to_string(address.index) +
             (address.slot == 0 ? "" : " of tree " + std::to_string(tree_of(address)));
    case RoleKind::kClient:
      return "client " + std::to_string(address.index);
  }
  return "unknown";
}

}  // namespace overlord::protocol
