// Cluster: the seam behind which the processes that host roles live. A keeper asks it to place a
// group of roles under a name, to watch how groups end, and to kill one; it restarts nothing by
// itself (roles/keeper decides), and which roles a group has is told to the group by the keeper.
// Filled by threads, child processes, the simulator, Ray.
//
// The contract, held by tests/integration/cluster_conformance.h for every filling:
//  - place() returns before the group serves; a name is placed again only after its end was told;
//  - `ended` is told once for every placed generation, whatever the reason, kill() included, and
//    never from inside place() or kill();
//  - groups may outlive who placed them: the next one watches, and finds them in placed();
//  - after stop() nothing of any group is left, and nothing is told any more.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/model/group_end.h"

namespace overlord::runtime {

// A group, where it is to live and what it needs there. What a filling cannot give, it ignores.
struct GroupPlacement {
  std::string name;
  uint32_t generation = 1;
  std::string host = {};      // empty: where the cluster is
  uint32_t cpus = 0;          // 0: whatever there is
  uint64_t memory_bytes = 0;  // 0: whatever there is
};

using model::GroupEnd;

class Cluster {
 public:
  using Ended = std::function<void(const GroupEnd&)>;
  virtual ~Cluster() = default;

  // Before the first place(), and again by who takes over: the last one is told.
  virtual void watch(Ended ended) = 0;
  virtual Status place(const GroupPlacement& group) = 0;
  virtual void kill(const std::string& name) = 0;
  // Groups whose end has not been told.
  virtual std::vector<GroupPlacement> placed() const = 0;
  virtual void stop() = 0;
  // The group's process on its host, for people; 0: it has none of its own.
  virtual uint32_t process_of(const std::string&) const { return 0; }
};

}  // namespace overlord::runtime
