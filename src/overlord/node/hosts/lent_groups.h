// LentGroups: the groups of a joined host. The lead says which are to live there; they are child
// processes, and their ends are told to it. All on one loop.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "overlord/base/status.h"
#include "overlord/node/hosts/memory_watch.h"
#include "overlord/node/keeper/keeper.h"
#include "overlord/node/process_cluster.h"
#include "overlord/protocol/control.h"
#include "overlord/protocol/job_codec.h"
#include "overlord/runtime/descriptor.h"
#include "overlord/runtime/seams.h"
#include "overlord/transport/carrier.h"
#include "overlord/transport/endpoint.h"

namespace overlord::node {

struct LentGroupsOptions {
  protocol::JobFile job;  // as this host reads it
  std::function<Result<std::unique_ptr<ProcessCluster>>(int job)> start;
  std::function<void(const protocol::Control&)> tell;  // the lead
  std::function<void(runtime::Task)> post;             // on the loop
  uint64_t memory_bytes = 0;                           // that it gives; 0: any
};

// To the lead that these reach. All of them outlive the groups.
LentGroupsOptions lent_to_lead(const KeeperArguments& arguments, const protocol::JobFile& job,
                               transport::Carrier& carrier, transport::Endpoint& endpoint);

class LentGroups {
 public:
  explicit LentGroups(LentGroupsOptions options)
      : options_(std::move(options)), self_(std::make_shared<LentGroups*>(this)) {}
  ~LentGroups() { stop(); }

  void hear(const protocol::GroupAsked& asked);
  void hear(const protocol::GroupUnasked& unasked);
  // Now and then. Tells which of them would run if there were a CPU for it, where that has changed,
  // and whether there is memory for them.
  void look(int64_t now_ns);
  // Nothing lives any more, and nothing is told.
  void stop();
  size_t living() const { return cluster_ ? cluster_->placed().size() : 0; }

 private:
  void tell_starved();
  Status prepare(const protocol::GroupAsked& asked);
  void ended(const runtime::GroupEnd& end);

  const LentGroupsOptions options_;
  runtime::Descriptor job_;  // of the attempt
  std::unique_ptr<ProcessCluster> cluster_;
  std::optional<uint32_t> attempt_;
  std::string state_;
  std::vector<SourceIndex> packs_;
  std::map<std::string, protocol::GroupAsked> waiting_;  // for the end of one of their name
  // Ends on their way over the loop outlive us there.
  const std::shared_ptr<LentGroups*> self_;
  std::vector<std::string> starved_;  // as we last told
  MemoryWatch memory_;
  int64_t looked_ns_ = 0;  // at memory
};

}  // namespace overlord::node
