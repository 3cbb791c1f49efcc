#include "overlord/node/hosts/hosts_cluster.h"

#include <utility>

namespace overlord::node {

HostsCluster::HostsCluster(HostsClusterOptions options)
    : options_(std::move(options)), self_(std::make_shared<HostsCluster*>(this)) {}

void HostsCluster::watch(Ended ended) {
  {
    const std::lock_guard lock(mutex_);
    ended_ = ended;
  }
  options_.here->watch(std::move(ended));
}

Status HostsCluster::place(const runtime::GroupPlacement& group) {
  if (group.host.empty()) return options_.here->place(group);
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return {Code::kCancelled, "no group is started any more"};
    if (!there_.emplace(group.name, group).second) {
      return internal_error(group.name + " is placed while it still lives");
    }
  }
  const protocol::GroupAsked asked{group.name, group.generation, options_.attempt, options_.state,
                                   options_.packs};
  const bool told = options_.tell(group.host, asked);
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) {  // and whoever stopped us has told it before us
      options_.tell(group.host, protocol::GroupUnasked{group.name});
      return {Code::kCancelled, "no group is started any more"};
    }
  }
  if (told) return {};
  const runtime::GroupEnd left{group.name, group.generation, "its host has left", {}, false, true};
  options_.post([self = std::weak_ptr(self_), left] {
    if (const auto here = self.lock()) (*here)->end(left);
  });
  return {};
}

void HostsCluster::kill(const std::string& name) {
  std::string host;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = there_.find(name); found != there_.end()) host = found->second.host;
  }
  if (host.empty()) return options_.here->kill(name);
  options_.tell(host, protocol::GroupUnasked{name});
}

void HostsCluster::hear(const std::string& host, const protocol::GroupGone& gone) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = there_.find(gone.name);
    if (found == there_.end() || found->second.host != host) return;
  }
  end(gone);
}

void HostsCluster::host_left(const std::string& host) {
  std::vector<runtime::GroupPlacement> gone;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, group] : there_) {
      if (group.host == host) gone.push_back(group);
    }
  }
  for (const runtime::GroupPlacement& group : gone) {
    end({group.name, group.generation, "the loss of " + host, {}, false, true});
  }
}

// Nothing, for a generation that is not the one that was placed: it is of an attempt before.
void HostsCluster::end(const runtime::GroupEnd& end) {
  Ended ended;
  {
    const std::lock_guard lock(mutex_);
    const auto found = there_.find(end.name);
    if (found == there_.end() || found->second.generation != end.generation) return;
    there_.erase(found);
    ended = ended_;
  }
  if (ended) ended(end);
}

std::vector<runtime::GroupPlacement> HostsCluster::placed() const {
  std::vector<runtime::GroupPlacement> out = options_.here->placed();
  const std::lock_guard lock(mutex_);
  for (const auto& [name, group] : there_) out.push_back(group);
  return out;
}

void HostsCluster::stop() {
  std::map<std::string, runtime::GroupPlacement> there;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    there.swap(there_);
    ended_ = nullptr;
  }
  for (const auto& [name, group] : there) {
    options_.tell(group.host, protocol::GroupUnasked{name});
  }
  options_.here->stop();
}

}  // namespace overlord::node
