#include "overlord/node/tree_rollout.h"

#include <algorithm>

#include "overlord/protocol/plan_codec.h"

namespace overlord::node {

void TreeRollout::begin(const planner::TreeChanged& change, std::function<void()> ready) {
  trees_.push_back({change.tree.version, change.first_step, change.tree.mesh.axes(),
                    protocol::encode_views(*change.tree.views)});
  ready_ = std::move(ready);
  trainers_told_ = false;
  wiring_.place(change);
  for (const std::string& process : wiring_.processes()) wiring_.send(process, trees_.back());
  look();
}

void TreeRollout::taken(const std::string& peer, uint32_t version) {
  uint32_t& known = taken_[peer];
  known = std::max(known, version);
  look();
}

void TreeRollout::greet(const std::string& process) {
  const std::vector<std::string> names = wiring_.processes();
  if (std::find(names.begin(), names.end(), process) == names.end()) return;  // somebody who looks
  for (const protocol::TreeTold& tree : trees_) wiring_.send(process, tree);
}

std::vector<std::string> TreeRollout::lacking(const std::vector<std::string>& peers) const {
  std::vector<std::string> out;
  for (const std::string& peer : peers) {
    const auto found = taken_.find(peer);
    if (found == taken_.end() || found->second < trees_.back().version) out.push_back(peer);
  }
  return out;
}

void TreeRollout::look() {
  if (!ready_ || !lacking(wiring_.processes()).empty()) return;
  if (!trainers_told_) {
    trainers_told_ = true;
    for (const std::string& trainer : wiring_.trainers()) wiring_.send(trainer, trees_.back());
  }
  if (!lacking(wiring_.trainers()).empty()) return;
  const std::function<void()> ready = std::move(ready_);
  ready_ = nullptr;
  ready();
}

std::string TreeRollout::waits() const {
  if (!ready_) return {};
  std::vector<std::string> peers = lacking(wiring_.processes());
  if (peers.empty()) peers = lacking(wiring_.trainers());
  std::string text;
  for (const std::string& peer : peers) text += (text.empty() ? "" : ", ") + peer;
  return "the mesh of step " + std::to_string(trees_.back().first_step) + " waits for " + text;
}

}  // namespace overlord::node
