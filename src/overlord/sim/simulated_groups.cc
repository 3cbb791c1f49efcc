#include "overlord/sim/simulated_groups.h"

#include <utility>

namespace overlord::sim {

SimulatedGroups::SimulatedGroups(World& world, Life life)
    : world_(world), life_(std::move(life)), self_(std::make_shared<SimulatedGroups*>(this)) {}

Status SimulatedGroups::place(const runtime::GroupPlacement& group) {
  if (stopped_) return {Code::kCancelled, "no group is started any more"};
  if (groups_.contains(group.name)) {
    return internal_error(group.name + " is placed while it still lives");
  }
  const uint64_t number = ++last_number_;
  const SimulatedLife life = life_(group);
  groups_[group.name] = {group, number, life};
  if (!life.lasts_ns) return {};
  world_.post_after(*life.lasts_ns, [self = std::weak_ptr(self_), name = group.name, number] {
    if (const auto here = self.lock()) (*here)->end(name, number, How::kItself);
  });
  return {};
}

void SimulatedGroups::kill(const std::string& name) {
  const auto found = groups_.find(name);
  if (found == groups_.end() || found->second.condemned) return;
  found->second.condemned = true;
  world_.post([self = std::weak_ptr(self_), name, number = found->second.number] {
    if (const auto here = self.lock()) (*here)->end(name, number, How::kKilled);
  });
}

void SimulatedGroups::lose_host(const std::string& host) {
  for (const auto& [name, group] : groups_) {
    if (group.placement.host != host) continue;
    world_.post([self = std::weak_ptr(self_), name = name, number = group.number] {
      if (const auto here = self.lock()) (*here)->end(name, number, How::kHostLeft);
    });
  }
}

void SimulatedGroups::end(const std::string& name, uint64_t number, How how) {
  const auto found = groups_.find(name);
  if (found == groups_.end() || found->second.number != number) return;
  const uint32_t generation = found->second.placement.generation;
  const SimulatedLife life = std::move(found->second.life);
  groups_.erase(found);
  if (life.over) life.over();
  if (!ended_) return;
  if (how == How::kItself) return ended_({name, generation, life.how, life.last_words});
  ended_({name, generation, "signal 9", {}, false, how == How::kHostLeft});
}

std::vector<runtime::GroupPlacement> SimulatedGroups::placed() const {
  std::vector<runtime::GroupPlacement> out;
  for (const auto& [name, group] : groups_) out.push_back(group.placement);
  return out;
}

void SimulatedGroups::stop() {
  stopped_ = true;
  groups_.clear();
}

}  // namespace overlord::sim
