// HostRosters: which processes there are, on this host and on the others as far as their nodes have
// told.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "overlord/model/plan.h"
#include "overlord/protocol/control.h"

namespace overlord::keeper {

struct HostRosters {
  uint32_t host = 0;  // its first rank
  protocol::Roster own;
  std::map<std::string, protocol::Roster> elsewhere;  // by node of another host

  protocol::Roster all() const;
  // Every one of these ranks can be told where its batches come from.
  bool knows_constructors(const std::vector<Rank>& ranks, const model::ViewTable& views) const;
  std::vector<protocol::ConstructorPlace> constructors() const;
};

// A process is told of a tree and, by the roster, of its own roles in it, in either order: a keeper
// may die between the two. It has taken the tree when its roster names it. Every tree has a
// constructor somewhere; a roster without one was made before it.
bool names_tree(const protocol::Roster& roster, uint32_t version);
// Of roles that are not in their first generation.
std::map<protocol::Address, uint32_t> later_generations(const protocol::Roster& roster);

// RestartBook: which roles have come again, seen by whoever gets one roster after another.
class RestartBook {
 public:
  // Those of `roster`, with their generations, that are newer than in all rosters before it. Before
  // the first everything is in its first generation. One more role of a process that goes on is no
  // news.
  std::vector<protocol::RoleGeneration> take(const protocol::Roster& roster);

 private:
  std::map<std::string, uint32_t> processes_;
  std::map<protocol::Address, uint32_t> roles_;
};

}  // namespace overlord::keeper
