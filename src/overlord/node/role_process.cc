#include "overlord/node/role_process.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <future>

#include "overlord/node/engine/open_files.h"
#include "overlord/node/recovery/living_process.h"
#include "overlord/node/role_runtime.h"
#include "overlord/node/status/status_codec.h"
#include "overlord/node/status/stuck_loaders.h"
#include "overlord/node/status/trace_switch.h"
#include "overlord/plan/place/place_tree.h"
#include "overlord/protocol/one_of.h"
#include "overlord/roles/keeper/rosters.h"
#include "overlord/roles/keeper/shadows.h"
#include "overlord/runtime/steady_clock.h"
#include "overlord/transport/carrier.h"
#include "overlord/transport/endpoint.h"

namespace overlord::node {
namespace {

using protocol::RoleKind;

constexpr int64_t kBeatNs = 200'000'000;
constexpr int64_t kOrphanLookNs = 200'000'000;  // whether the job's directory is there
constexpr size_t kNotesKept = 10'000;           // rows found bad, for a node that comes again
constexpr uint64_t kBeatsPerStatus = 5;         // what the roles do is told once a second

bool has_loaders(const protocol::ProcessRoles& process) {  // or shadows of some
  const auto loads = [](const protocol::Address& role) { return role.kind == RoleKind::kLoader; };
  return std::any_of(process.roles.begin(), process.roles.end(), loads) || !process.standby.empty();
}
constexpr size_t kSegmentBytes = 16 << 20, kFirstSegmentBytes = 2 << 20;

class RoleProcess {
 public:
  RoleProcess(const RoleProcessArguments& arguments, const protocol::JobFile& file)
      : arguments_(arguments),
        file_(file),
        keeper_(arguments.wire.joined ? "lead" : "node"),
        trace_(arguments.directory, arguments.name) {}
  ~RoleProcess() {
    if (endpoint_) endpoint_->close();
    if (runtime_) runtime_->stop();
  }

  Status open();
  int wait() { return ended_.get_future().get(); }

 private:
  transport::CarrierOptions carrier_options();
  protocol::Hello hello() const;
  void on_control(const protocol::Control& control) {
    std::visit([this](const auto& one) { hear(one); }, control);
  }
  void call_keeper() { endpoint_->call(keeper_, keeper_ == "lead" ? arguments_.wire.lead : ""); }
  void node_lost();
  void look_for_node(uint64_t loss);
  void node_found();
  void note_row(const loader::QuarantineNote& note);
  void hear(const protocol::Roster& roster);
  void hear(const protocol::TreeTold& told);
  void hear(const protocol::Refused& refused) { end(refused.status); }
  void hear(const protocol::StatusAsked&);
  // Of the links, and for others.
  template <protocol::OneOf<
      protocol::Hello, protocol::SegmentShared, protocol::SegmentForgotten, protocol::LeaseReleased,
      protocol::Attach, protocol::Welcome, protocol::FedBack, protocol::RowNoted, protocol::Beat,
      protocol::StatusTold, protocol::Detach, protocol::TreeAsked, protocol::TreeAnswered,
      protocol::TreeTaken, protocol::Join, protocol::GroupAsked, protocol::GroupUnasked,
      protocol::GroupGone, protocol::GroupsStarve, protocol::HostPressed>
                Other>
  void hear(const Other&) {}
  void take_trees();
  void retire(const std::vector<protocol::Address>& roles);
  void host_roles(const std::vector<protocol::Address>& roles);
  protocol::ProcessRoles own(const protocol::Roster& roster) const;
  void settle_loaders(const protocol::ProcessRoles& now);
  Status start(const protocol::Roster& roster);
  void call_loaders(const protocol::Roster& roster);
  void tell_restarts(const protocol::Roster& roster);
  void beat();
  void end(const Status& status);

  const RoleProcessArguments arguments_;
  const protocol::JobFile& file_;
  const std::string keeper_;  // who says what lives here: the node of this host, or of the lead's
  std::shared_ptr<const host::OpenJob> job_;
  std::shared_ptr<transport::SharedPool> pool_;
  std::unique_ptr<transport::Carrier> carrier_;
  std::unique_ptr<RoleRuntime> runtime_;
  std::unique_ptr<transport::Endpoint> endpoint_;
  keeper::RestartBook restarts_;
  std::vector<protocol::Envelope> early_;  // for roles that are being made
  protocol::Roster roster_;
  std::vector<planner::TreeChanged> trees_;  // later ones than the job's own
  TraceSwitch trace_;
  uint64_t beats_ = 0;
  StuckLoaders stuck_loaders_;
  uint64_t stuck_ms_ = 0;
  uint64_t losses_ = 0;     // of the node
  int64_t lost_ns_ = 0;     // since when there is none; 0: there is one
  uint32_t term_ = 1;       // of the planner
  std::mutex notes_mutex_;  // rows are found on any thread
  std::vector<protocol::RowNoted> notes_ OVERLORD_GUARDED_BY(notes_mutex_);
  bool over_ = false;
  std::promise<int> ended_;
};

Status RoleProcess::open() {
  OVERLORD_TRY(const auto storage, open_storage_of(file_.spec, {runtime::BufferPool::make(0), 1,
                                                                file_.runtime.open_files}));
  OVERLORD_TRY(job_,
               open_files(file_.spec, file_.delivery, file_.mesh, file_.index_paths, *storage));
  const uint64_t limit = file_.runtime.payload_budget_bytes +
                         file_.runtime.constructor_budget_bytes * (file_.ranks.size() + 1);
  const transport::SharedPoolOptions sizes{arguments_.name, kSegmentBytes, limit, true,
                                           kFirstSegmentBytes};
  OVERLORD_TRY(pool_, transport::SharedPool::make(sizes, [this](transport::SegmentId id) {
                 if (carrier_) carrier_->forget_segment(id);
               }));
  carrier_ = std::make_unique<transport::Carrier>(carrier_options());
  transport::EndpointOptions options;
  options.directory = arguments_.directory;
  options.self = hello();
  options.admit = [this](const protocol::Hello& other) -> Status {
    if (other.job == job_->config.low && other.attempt == file_.attempt) return {};
    return Status(Code::kVersionMismatch, "another job or attempt than this process serves");
  };
  options.connected = [this](const protocol::Hello& other) {
    if (other.name == keeper_) node_found();
  };
  options.lost = [this](const std::string& peer) {
    if (peer == keeper_) return node_lost();
    if (peer == "lead" && runtime_) call_loaders(roster_);  // or whoever leads now
  };
  options.refused = [this](const std::string& peer, const Status& why) {
    if (peer == keeper_) return end(why.with_context(peer));
    if (peer == "lead") {  // one that has come back, and has not heard of us yet
      endpoint_->post_after(kOrphanLookNs,
                            [this] { endpoint_->call("lead", arguments_.wire.lead); });
    }
  };
  OVERLORD_TRY(options.security, read_security(arguments_.wire));
  options.limits = wire_limits(arguments_.wire);
  options.pool = pool_->buffers();
  OVERLORD_TRY(endpoint_, transport::Endpoint::open(std::move(options), carrier_.get()));
  protocol::Hello self = hello();
  if (!arguments_.wire.bind.empty()) {
    OVERLORD_TRY(self.wire, endpoint_->listen_wire(arguments_.wire.bind));
  }
  endpoint_->introduce(std::move(self));
  call_keeper();
  return {};
}

protocol::Hello RoleProcess::hello() const {
  protocol::Hello out;
  out.name = arguments_.name;
  out.generation = arguments_.generation;
  out.job = job_->config.low;
  out.attempt = file_.attempt;
  return out;
}

transport::CarrierOptions RoleProcess::carrier_options() {
  transport::CarrierOptions options;
  options.name = arguments_.name;
  options.pool = pool_;
  options.plans.views = {plan::make_views(job_->mesh, job_->delivery, 1, job_->spec.strategy)};
  options.plans.sources = static_cast<uint32_t>(job_->sources.size());
  options.deliver = [this](protocol::Envelope envelope) {
    if (runtime_) return runtime_->host().deliver(std::move(envelope));
    early_.push_back(std::move(envelope));  // the planner asks as soon as we are connected
  };
  options.control = [this](const std::string& peer, protocol::Control control) {
    if (peer == keeper_) on_control(control);
  };
  options.nonsense = [](const std::string& peer, const Status& status) {
    std::fprintf(stderr, "%s sent nonsense: %s\n", peer.c_str(), status.message().c_str());
  };
  return options;
}

// Whoever has batches asked for gets them from here meanwhile.
void RoleProcess::node_lost() {
  if (arguments_.orphan_ms == 0 || !runtime_) return end({});  // who reads our words is gone too
  lost_ns_ = runtime::steady_now_ns();
  ++losses_;
  call_keeper();
  look_for_node(losses_);
}

void RoleProcess::look_for_node(uint64_t loss) {
  if (over_ || lost_ns_ == 0 || loss != losses_) return;
  const bool late = runtime::steady_now_ns() - lost_ns_ > arguments_.orphan_ms * 1'000'000;
  if (late || access(arguments_.directory.c_str(), F_OK) != 0) return end({});
  endpoint_->post_after(kOrphanLookNs, [this, loss] { look_for_node(loss); });
}

// What it was told while it was not there, or has forgotten.
void RoleProcess::node_found() {
  lost_ns_ = 0;
  const std::lock_guard lock(notes_mutex_);
  for (const protocol::RowNoted& note : notes_) carrier_->send_control(keeper_, note);
}

void RoleProcess::note_row(const loader::QuarantineNote& note) {
  const std::lock_guard lock(notes_mutex_);
  const protocol::RowNoted told{note.id, note.row, note.reason, note.late};
  if (notes_.size() < kNotesKept) notes_.push_back(told);
  carrier_->send_control(keeper_, told);
}

void RoleProcess::hear(const protocol::StatusAsked&) {
  if (!runtime_) return;
  carrier_->send_control(keeper_, protocol::StatusTold{encode_engine_status(runtime_->status())});
}

void RoleProcess::hear(const protocol::Roster& roster) {
  carrier_->set_roster(roster);
  const bool tree_waits =
      !trees_.empty() && !keeper::names_tree(roster_, trees_.back().tree.version);
  roster_ = roster;
  if (!runtime_) {
    restarts_.take(roster);
    if (Status status = start(roster); !status.ok()) return end(status);
  } else {
    settle_loaders(own(roster));
    tell_restarts(roster);
    retire(own(roster).roles);
    if (tree_waits) take_trees();
  }
  call_loaders(roster);
}

protocol::ProcessRoles RoleProcess::own(const protocol::Roster& roster) const {
  for (const protocol::ProcessRoles& process : roster.processes) {
    if (process.name == arguments_.name) return process;
  }
  return {};
}

// Slots that were promoted to here, and after a node has come again perhaps others that were
// promoted before and are not any more. What is sent from here to a slot that is here now must not
// leave: the carrier knows it first.
void RoleProcess::settle_loaders(const protocol::ProcessRoles& now) {
  if (now.generation != arguments_.generation) return;  // it is about us when we are dead
  std::vector<protocol::RoleGeneration> active;
  for (const protocol::Address& role : now.roles) {
    if (role.kind == RoleKind::kLoader) active.push_back({role, keeper::generation_of(now, role)});
  }
  host_roles(now.roles);
  runtime_->host().settle_loaders(active, now.standby);
}

// The roster says where its constructors live, before or after: one that starts anew is told of
// trees first.
void RoleProcess::hear(const protocol::TreeTold& told) {
  Result<model::Mesh> mesh = model::Mesh::make(told.axes);
  if (!mesh.ok()) return end(mesh.status());
  if (trees_.empty() || trees_.back().tree.version < told.version) {  // else a new node tells it
    const auto views = plan::make_views(*mesh, job_->delivery, told.version, job_->spec.strategy,
                                        told.ranks, job_->mesh.world_size());
    trees_.push_back({told.first_step, {*mesh, views, told.version, told.ranks}, told.again});
  }
  if (runtime_) take_trees();
}

void RoleProcess::take_trees() {
  if (trees_.empty()) return;
  const std::vector<protocol::Address> roles = own(roster_).roles;
  host_roles(roles);
  for (const planner::TreeChanged& change : trees_) {
    std::vector<uint32_t> buckets;
    for (const protocol::Address& role : roles) {
      if (role.kind != RoleKind::kConstructor) continue;
      if (protocol::tree_of(role) == change.tree.version) buckets.push_back(role.index);
    }
    runtime_->host().take_tree(change, buckets, arguments_.generation);
  }
  call_loaders(roster_);
  const uint32_t newest = trees_.back().tree.version;
  if (keeper::names_tree(roster_, newest)) {
    carrier_->send_control(keeper_, protocol::TreeTaken{newest});
  }
}

// Constructors of a tree that is past are in no roster any more.
void RoleProcess::retire(const std::vector<protocol::Address>& roles) {
  for (const auto& [address, probe] : runtime_->host().constructors()) {
    if (std::find(roles.begin(), roles.end(), address) != roles.end()) continue;
    runtime_->host().retire(address);
  }
}

void RoleProcess::host_roles(const std::vector<protocol::Address>& roles) {
  carrier_->host(roles);
  protocol::Hello self = hello();
  self.roles = roles;
  endpoint_->introduce(std::move(self));
}

Status RoleProcess::start(const protocol::Roster& roster) {
  host::HostStart start;
  const std::vector<protocol::Address> roles = own(roster).roles;
  start.generations = keeper::later_generations(roster);
  start.job = job_;
  start.ranks = file_.ranks;
  start.options = file_.runtime;
  start.attempt = file_.attempt;
  start.share_batches = arguments_.share_batches;
  start.hosted.planner = false;
  start.hosted.loaders.emplace();
  start.hosted.constructors.emplace();
  start.hosted.clients.emplace();
  for (const protocol::Address& role : roles) {
    if (role.kind == RoleKind::kLoader) start.hosted.loaders->push_back(role);
    if (role.kind != RoleKind::kConstructor || protocol::tree_of(role) != 1) continue;
    start.hosted.constructors->push_back(role.index);
  }
  start.hosted.standby = own(roster).standby;
  start.hosted.loaders->insert(start.hosted.loaders->end(), start.hosted.standby.begin(),
                               start.hosted.standby.end());
  OVERLORD_TRY(start.state, protocol::decode_resume_state(file_.state));
  start.quarantined = [this](const loader::QuarantineNote& note) { note_row(note); };
  term_ = roster.term;
  host_roles(roles);
  OVERLORD_TRY(runtime_, RoleRuntime::make(std::move(start), carrier_.get(),
                                           {file_.worker_command, "", pool_}));
  OVERLORD_RETURN_IF_ERROR(endpoint_->listen(arguments_.name));
  runtime_->start_roles();
  take_trees();
  for (protocol::Envelope& envelope : early_) runtime_->host().deliver(std::move(envelope));
  early_.clear();
  beat();
  return {};
}

// Constructors fetch: they call the loaders, and everybody calls the node. Where the planner is on
// another host they call that too.
void RoleProcess::call_loaders(const protocol::Roster& roster) {
  if (runtime_->host().constructors().empty()) return;
  if (arguments_.wire.several_hosts() && !arguments_.wire.leads) {
    endpoint_->call("lead", arguments_.wire.lead);
  }
  uint32_t host = 0;
  for (const protocol::ProcessRoles& process : roster.processes) {
    if (process.name == arguments_.name) host = process.host;
  }
  for (const protocol::ProcessRoles& process : roster.processes) {
    if (!has_loaders(process) || process.name == arguments_.name) continue;
    // Constructors that live with loaders: one of two such processes calls, and both use the link.
    const bool fetches =
        !process.roles.empty() && process.roles.back().kind == RoleKind::kConstructor;
    if (fetches && process.name < arguments_.name && !runtime_->host().loaders().empty()) continue;
    const bool here = process.host == host;
    if (here || !process.wire.empty()) endpoint_->call(process.name, here ? "" : process.wire);
  }
}

void RoleProcess::tell_restarts(const protocol::Roster& roster) {
  if (roster.term > term_) {
    term_ = roster.term;
    runtime_->host().peer_restarted(protocol::planner_address(), term_);
  }
  for (const protocol::RoleGeneration& one : restarts_.take(roster)) {
    runtime_->host().peer_restarted(one.role, one.generation);
  }
}

void RoleProcess::beat() {
  if (over_) return;
  trace_.poll();
  protocol::Beat beat;
  ++beats_;
  if (beats_ % kBeatsPerStatus == 1) {
    const EngineStatus status = runtime_->status();
    beat.status = encode_engine_status(status);
    stuck_ms_ = stuck_loaders_.longest_ms(status, cpu_ns_with_children(), runtime::steady_now_ns());
  }
  beat.stuck_ms = stuck_ms_;
  carrier_->send_control(keeper_, beat);
  endpoint_->post_after(kBeatNs, [this] { this->beat(); });
}

void RoleProcess::end(const Status& status) {
  if (over_) return;
  over_ = true;
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.message().c_str());
  ended_.set_value(status.ok() ? 0 : 1);
}

}  // namespace

int run_role_process(const RoleProcessArguments& arguments, const protocol::JobFile& job) {
  RoleProcess process(arguments, job);
  if (Status status = process.open(); !status.ok()) {
    std::fprintf(stderr, "%s\n", status.message().c_str());
    return 1;
  }
  return process.wait();
}

}  // namespace overlord::node
