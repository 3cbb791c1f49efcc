#include "overlord/node/hosts/lent_groups.h"

#include <algorithm>
#include <utility>

#include "overlord/node/engine/job_memory.h"
#include "overlord/node/keeper/role_cluster.h"
#include "overlord/node/recovery/living_process.h"

namespace overlord::node {
namespace {

constexpr int64_t kMemoryNs = 1'000'000'000;  // between two looks at it

}  // namespace

LentGroupsOptions lent_to_lead(const KeeperArguments& arguments, const protocol::JobFile& job,
                               transport::Carrier& carrier, transport::Endpoint& endpoint) {
  LentGroupsOptions out;
  out.job = job;
  out.memory_bytes = arguments.gives.memory_bytes;
  KeeperArguments joined = arguments;
  joined.wire.joined = true;
  out.start = [joined, name = job.spec.name](int memory) {
    return start_role_cluster(joined, name, memory);
  };
  out.tell = [&carrier](const protocol::Control& control) {
    carrier.send_control("lead", control);
  };
  out.post = [&endpoint](runtime::Task task) { endpoint.post(std::move(task)); };
  return out;
}

// Of another attempt than before: nothing of that is of use.
Status LentGroups::prepare(const protocol::GroupAsked& asked) {
  if (cluster_ && attempt_ == asked.attempt && state_ == asked.state && packs_ == asked.packs) {
    return {};
  }
  stop();
  protocol::JobFile file = options_.job;
  file.attempt = asked.attempt;
  file.state = asked.state;
  for (model::Source& source : file.spec.sources) source.decode_at = model::DecodeAt::kLoader;
  for (const SourceIndex source : asked.packs) {
    if (source >= file.spec.sources.size()) return internal_error("a source that the job has not");
    file.spec.sources[source].decode_at = model::DecodeAt::kConstructor;
  }
  OVERLORD_TRY(job_, job_in_memory(file));
  OVERLORD_TRY(cluster_, options_.start(job_.get()));
  attempt_ = asked.attempt;
  state_ = asked.state;
  packs_ = asked.packs;
  cluster_->watch([this](const runtime::GroupEnd& end) {
    options_.post([self = std::weak_ptr(self_), end] {
      if (const auto here = self.lock()) (*here)->ended(end);
    });
  });
  return {};
}

void LentGroups::hear(const protocol::GroupAsked& asked) {
  Status status = prepare(asked);
  if (status.ok()) {
    const std::vector<runtime::GroupPlacement> placed = cluster_->placed();
    if (std::any_of(placed.begin(), placed.end(),
                    [&](const auto& group) { return group.name == asked.name; })) {
      waiting_.insert_or_assign(asked.name, asked);
      return cluster_->kill(asked.name);
    }
    status = cluster_->place({asked.name, asked.generation});
  }
  if (status.ok()) return;
  options_.tell(
      protocol::GroupGone{asked.name, asked.generation, "no start", status.message(), true});
}

void LentGroups::hear(const protocol::GroupUnasked& unasked) {
  if (const auto waits = waiting_.extract(unasked.name)) {
    const protocol::GroupAsked& asked = waits.mapped();
    options_.tell(protocol::GroupGone{asked.name, asked.generation, "no start", {}, false});
  }
  if (cluster_) cluster_->kill(unasked.name);
}

void LentGroups::ended(const runtime::GroupEnd& end) {
  options_.tell(end);
  if (const auto waits = waiting_.extract(end.name)) hear(waits.mapped());
}

void LentGroups::look(int64_t now_ns) {
  if (!cluster_) return;
  tell_starved();
  if (now_ns - looked_ns_ < kMemoryNs) return;
  looked_ns_ = now_ns;
  const auto word = memory_.look(read_host_memory(options_.memory_bytes), now_ns);
  if (word) options_.tell(protocol::HostPressed{*word});
}

void LentGroups::tell_starved() {
  std::vector<std::string> names;
  for (const runtime::GroupPlacement& group : cluster_->placed()) {
    if (wants_to_run(cluster_->process_of(group.name))) names.push_back(group.name);
  }
  if (names != starved_) options_.tell(protocol::GroupsStarve{names});
  starved_ = std::move(names);
}

void LentGroups::stop() {
  waiting_.clear();
  starved_.clear();
  if (cluster_) cluster_->stop();
  cluster_.reset();
  attempt_.reset();
}

}  // namespace overlord::node
