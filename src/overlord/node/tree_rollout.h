// TreeRollout: how the processes of a host come to know a new tree. Role processes first, which
// make its constructors; then the trainers, whose clients ask them at once; then the planner may
// plan for it. Whoever starts again is told of all trees before anything else. Waits for everybody
// who lives; a value without threads, on the node's loop.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "overlord/protocol/control.h"
#include "overlord/roles/planner/state.h"

namespace overlord::node {

class TreeRollout {
 public:
  struct Wiring {
    std::function<void(const std::string& peer, const protocol::Control&)> send;
    std::function<std::vector<std::string>()> processes;  // that host roles
    std::function<std::vector<std::string>()> trainers;   // that are attached
    // Gives the tree's constructors homes, and tells everybody of them.
    std::function<void(const planner::TreeChanged&)> place;
  };
  explicit TreeRollout(Wiring wiring) : wiring_(std::move(wiring)) {}

  // One at a time: the planner waits for `ready`.
  void begin(const planner::TreeChanged& change, std::function<void()> ready);
  void taken(const std::string& peer, uint32_t version);
  // A role process has connected, and knows nothing.
  void greet(const std::string& process);
  void ended(const std::string& process) { taken_.erase(process); }
  // Somebody may have left: look whether all others are ready.
  void look();
  // Whom a new tree waits for, for people; empty: nobody.
  std::string waits() const;

 private:
  std::vector<std::string> lacking(const std::vector<std::string>& peers) const;

  Wiring wiring_;
  std::vector<protocol::TreeTold> trees_;
  std::map<std::string, uint32_t> taken_;  // newest version
  std::function<void()> ready_;            // of the tree that is being told
  bool trainers_told_ = false;
};

}  // namespace overlord::node
