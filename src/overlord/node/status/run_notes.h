// RunNotes: how nodes of one run on one host learn that their ranks disagree. Ranks with different
// configs look for different nodes, and each node would wait for the ranks of the other. So a node
// that waits says in its directory for which run, and who is there; of two that wait for each
// other's ranks, the one whose directory comes first tells both.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "overlord/base/hash.h"
#include "overlord/base/ids.h"
#include "overlord/base/status.h"

namespace overlord::node {

class RunNotes {
 public:
  // `run`: what all ranks of a host that one launcher started have in common; empty: none.
  RunNotes(std::string directory, std::string run, Digest job);

  // Now and then while ranks are missing. Why they will not come, once that is known.
  std::optional<Status> look(const std::vector<Rank>& here, const std::vector<Rank>& missing,
                             int64_t now_ns);
  // Nobody is waited for any more.
  void stop();

 private:
  void write_own(const std::vector<Rank>& here);

  std::string directory_;
  std::string run_;
  Digest job_;
  std::string written_;                   // what others may read
  std::map<std::string, int64_t> since_;  // directories whose ranks we miss, seen first
};

}  // namespace overlord::node
