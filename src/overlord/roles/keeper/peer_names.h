// Names by which a keeper knows who calls.
#pragma once

#include <string>

namespace overlord::keeper {

inline bool is_follower(const std::string& name) { return name.starts_with("host-"); }
// Those that attach: trainers of this host, and to a lead the nodes of the others.
inline bool is_trainer(const std::string& name) {
  return name.starts_with("rank-") || is_follower(name);
}
// Hosts without ranks, which have room for loaders.
inline bool is_joined_host(const std::string& name) { return name.starts_with("joined-"); }

}  // namespace overlord::keeper
