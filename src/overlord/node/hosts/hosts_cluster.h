// HostsCluster: groups as processes of this host (ProcessCluster), and of hosts that have joined,
// which are asked over the wire. Of those the link tells: when it breaks, all that lived there has
// ended.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "overlord/base/guarded_by.h"
#include "overlord/node/process_cluster.h"
#include "overlord/protocol/control.h"
#include "overlord/runtime/cluster.h"
#include "overlord/runtime/seams.h"

namespace overlord::node {

struct HostsClusterOptions {
  std::unique_ptr<ProcessCluster> here;
  // False: there is no link to that host.
  std::function<bool(const std::string& host, const protocol::Control&)> tell;
  uint32_t attempt = 0;
  std::string state;                    // encode_resume_state of the first step
  std::vector<SourceIndex> packs = {};  // whose media constructors decode
  // Runs a task later, never from inside the caller.
  std::function<void(runtime::Task)> post;
};

class HostsCluster final : public runtime::Cluster {
 public:
  explicit HostsCluster(HostsClusterOptions options);

  ProcessCluster& here() { return *options_.here; }
  // From a joined host.
  void hear(const std::string& host, const protocol::GroupGone& gone);
  void host_left(const std::string& host);

  void watch(Ended ended) override;
  Status place(const runtime::GroupPlacement& group) override;
  void kill(const std::string& name) override;
  std::vector<runtime::GroupPlacement> placed() const override;
  void stop() override;
  uint32_t process_of(const std::string& name) const override {
    return options_.here->process_of(name);
  }

 private:
  void end(const runtime::GroupEnd& end);

  HostsClusterOptions options_;
  const std::shared_ptr<HostsCluster*> self_;  // ends on their way outlive us
  mutable std::mutex mutex_;
  Ended ended_ OVERLORD_GUARDED_BY(mutex_);
  bool stopped_ OVERLORD_GUARDED_BY(mutex_) = false;
  // On joined hosts, by name.
  std::map<std::string, runtime::GroupPlacement> there_ OVERLORD_GUARDED_BY(mutex_);
};

}  // namespace overlord::node
