// Cluster: the seam behind which the processes that host roles live. An engine asks it to place a
// group of roles under a name, to watch how groups end, and to kill one; it restarts nothing by
// itself (host/supervisor.h decides). Filled by threads, child processes, the simulator, Ray.
//
// The contract, held by tests/integration/cluster_conformance.h for every filling:
//  - place() returns before the group serves; a name is placed again only after its end was told;
//  - `ended` is told once for every placed generation, whatever the reason, kill() included, and
//    never from inside place() or kill();
//  - after stop() nothing of any group is left, and nothing is told any more.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/protocol/control.h"

namespace overlord::host {

struct GroupEnd {
  std::string name;
  uint32_t generation = 0;
  std::string how;         // "exit status 1", "signal 9"
  std::string last_words;  // of its log; may be empty
  bool by_itself = false;  // it exited; nobody killed it
};

class Cluster {
 public:
  using Ended = std::function<void(const GroupEnd&)>;
  virtual ~Cluster() = default;

  // Called once, before the first place().
  virtual void watch(Ended ended) = 0;
  virtual Status place(const protocol::ProcessRoles& group) = 0;
  virtual void kill(const std::string& name) = 0;
  // Groups whose end has not been told.
  virtual std::vector<protocol::ProcessRoles> placed() const = 0;
  virtual void stop() = 0;
};

}  // namespace overlord::host
