#include "overlord/node/keeper.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "overlord/node/data_match.h"
#include "overlord/node/job_keeper.h"
#include "overlord/node/job_memory.h"
#include "overlord/node/open_files.h"
#include "overlord/node/role_command.h"
#include "overlord/node/welcome.h"
#include "overlord/plan/place_tree.h"

namespace overlord::node {
namespace {

using protocol::Control;
using protocol::Hello;

constexpr int64_t kWatchNs = 500'000'000;
constexpr size_t kNotesKept = 10'000;  // rows found bad, for ranks that attach later

// Those that attach: trainers of this host, and to a lead the nodes of the others.
bool is_trainer(const std::string& name) {
  return name.starts_with("rank-") || name.starts_with("host-");
}

}  // namespace

Keeper::~Keeper() {
  metrics_.reset();
  if (endpoint_) endpoint_->close();
  stop_serving();
}

Status Keeper::open() {
  storage::LocalStorage storage(runtime::BufferPool::make(0), 1, file_.runtime.open_files);
  OVERLORD_RETURN_IF_ERROR(storage.status());
  OVERLORD_TRY(job_,
               open_files(file_.spec, file_.delivery, file_.mesh, file_.index_paths, storage));
  OVERLORD_RETURN_IF_ERROR(check_node_can_plan(*job_, file_.ranks.size()));
  views_ = plan::make_views(job_->mesh, job_->delivery, 1, job_->spec.strategy);
  buckets_ = buckets_of_host(*views_, file_.ranks, local_);
  carrier_ = std::make_unique<transport::Carrier>(carrier_options());
  if (!follows_) carrier_->host({protocol::planner_address()});
  OVERLORD_RETURN_IF_ERROR(open_endpoint());
  metrics_ = open_metrics(
      arguments_, [this](runtime::Task task) { endpoint_->post(std::move(task)); },
      [this] { return status(); });
  endpoint_->post([this] { watch_silence(); });
  endpoint_->post_after(arguments_.attach_ms * 1'000'000, [this] {
    if (serving_ || arguments_.stays || over_) return;
    std::string missing;
    for (const Rank rank : book_.missing()) missing += " " + std::to_string(rank);
    give_up(Status(Code::kDeadline, "these ranks have not attached:" + missing));
  });
  return {};
}

Status Keeper::open_endpoint() {
  transport::EndpointOptions options;
  options.directory = arguments_.directory;
  options.self.name = "node";
  options.self.job = job_->config.low;
  if (!follows_) options.self.roles = {protocol::planner_address()};
  options.admit = [this](const Hello& hello) { return admit(hello); };
  options.connected = [this](const Hello& hello) { on_connected(hello); };
  options.lost = [this](const std::string& peer) { on_lost(peer); };
  options.refused = [this](const std::string& peer, const Status& why) {
    give_up(why.with_context(peer));
  };
  OVERLORD_TRY(options.security, read_security(arguments_.wire));
  options.pool = runtime::BufferPool::make(64 << 20);
  options.wire_name =
      follows_ ? "host-" + std::to_string(local_.front()) + "@" + std::to_string(getpid()) : "lead";
  OVERLORD_TRY(endpoint_, transport::Endpoint::open(std::move(options), carrier_.get()));
  if (arguments_.wire.leads) {
    OVERLORD_RETURN_IF_ERROR(endpoint_->listen_wire(arguments_.wire.lead).status());
  }
  return endpoint_->listen("node");
}

transport::CarrierOptions Keeper::carrier_options() {
  transport::CarrierOptions options;
  options.name = "node";
  options.plans.views = {views_};
  options.plans.sources = static_cast<uint32_t>(job_->sources.size());
  options.deliver = [this](protocol::Envelope envelope) {
    if (serving_ && serving_->planner) serving_->planner->host().deliver(std::move(envelope));
  };
  options.control = [this](const std::string& peer, Control control) {
    on_control(peer, std::move(control));
  };
  options.nonsense = [](const std::string& peer, const Status& status) {
    std::fprintf(stderr, "%s sent nonsense: %s\n", peer.c_str(), status.message().c_str());
  };
  return options;
}

// --- Who may talk to us -------------------------------------------------------------------------

Status Keeper::admit(const Hello& hello) {
  if (hello.format != protocol::kControlFormat) {
    return Status(Code::kVersionMismatch,
                  "this node speaks format " + std::to_string(protocol::kControlFormat) + ", " +
                      hello.name + " speaks " + std::to_string(hello.format) +
                      "; use one version of overlord on a host");
  }
  if (is_trainer(hello.name) || hello.name.starts_with("top-")) return {};
  if (serving_) {
    for (const protocol::ProcessRoles& process : serving_->supervisor->groups()) {
      if (process.name == hello.name && process.generation == hello.generation) return {};
    }
  }
  // Constructors of a host that follows us come when its node has told of them.
  for (const protocol::ProcessRoles& process : roster().processes) {
    if (process.name == hello.name && process.generation == hello.generation) return {};
  }
  return Status(Code::kVersionMismatch, hello.name + " is of no use here, or of an earlier time");
}

void Keeper::on_connected(const Hello& hello) {
  if (hello.name == "lead" && serving_ == nullptr && book_.missing().empty()) {
    carrier_->send_control(
        "lead", protocol::Attach{book_.attempt(), arguments_.job, book_.state(), book_.allowed(),
                                 local_, static_cast<uint32_t>(getpid())});
  }
  if (is_trainer(hello.name) || !serving_) return;
  serving_->supervisor->heard(hello.name, hello.generation, clock_.now_ns());
  wires_[hello.name] = hello.wire;
  serving_->trees->greet(hello.name);  // before it makes its roles
  carrier_->send_control(hello.name, roster());
  roster_changed();
}

void Keeper::roster_changed() {
  if (!serving_) return;
  const protocol::Roster now = roster();
  carrier_->set_roster(now);
  tell_processes(now);
  if (follows_) {
    carrier_->send_control("lead", rosters().own);
    if (serving_->welcomed) tell_trainers(now);
  } else {
    tell_trainers(now);
  }
  welcome_all();
}

void Keeper::on_roster(const std::string& peer, const protocol::Roster& roster) {
  std::map<std::string, uint32_t> before;
  for (const protocol::ProcessRoles& process : elsewhere_[peer].processes) {
    before[process.name] = process.generation;
  }
  elsewhere_[peer] = roster;
  carrier_->set_roster(this->roster());  // first: what is sent to the new must not go to the dead
  for (const protocol::ProcessRoles& process : roster.processes) {
    const auto known = before.find(process.name);
    if (known == before.end() || process.generation <= known->second || follows_) continue;
    for (const protocol::Address& role : process.roles) {
      serving_->planner->host().peer_restarted(role, process.generation);
    }
  }
  roster_changed();
}

void Keeper::on_lead(const protocol::Welcome& welcome) {
  lead_ = welcome;
  if (Status status = serve(); !status.ok()) give_up(status);
}

void Keeper::on_lost(const std::string& peer) {
  if (peer == "lead") {
    return give_up(Status(Code::kUnavailable,
                          "the node that plans for all hosts is gone, so the stream stops here: "
                          "restart from the last checkpoint"));
  }
  if (is_trainer(peer)) return leave(peer);
  if (serving_) serving_->cluster->kill(peer);
}

void Keeper::leave(const std::string& peer) {
  const auto found = connections_.find(peer);
  if (found == connections_.end()) return;
  const AttachBook::Connection connection = found->second;
  connections_.erase(found);
  peers_.erase(connection);
  told_.erase(peer);
  const bool last = book_.leave(connection);
  if (serving_) serving_->trees->look();
  if (!last || parting_) return;
  hear_last_words([this] {
    if (!arguments_.stays) return end(failure_.ok() ? 0 : 1);
    failure_ = {};
    book_.begin_anew();
    stop_serving();
  });
}

void Keeper::on_control(const std::string& peer, Control control) {
  if (const auto* attach = std::get_if<protocol::Attach>(&control)) {
    on_attach(peer, *attach);
  } else if (const auto* beat = std::get_if<protocol::Beat>(&control)) {
    on_beat(peer, *beat);
  } else if (const auto* note = std::get_if<protocol::RowNoted>(&control)) {
    if (notes_.size() < kNotesKept) notes_.try_emplace(note->id, *note);
    tell_trainers(*note);
  } else if (std::holds_alternative<protocol::StatusAsked>(control)) {
    carrier_->send_control(peer, protocol::StatusTold{encode_node_status(status())});
  } else if (const auto* told = std::get_if<protocol::StatusTold>(&control)) {
    on_last_words(peer, *told);
  } else if (const auto* others = std::get_if<protocol::Roster>(&control)) {
    if (serving_ || follows_) on_roster(peer, *others);
  } else if (const auto* welcome = std::get_if<protocol::Welcome>(&control)) {
    if (follows_ && peer == "lead") on_lead(*welcome);
  } else if (const auto* refused = std::get_if<protocol::Refused>(&control)) {
    if (peer == "lead") give_up(refused->status.with_context("the lead"));
  } else if (const auto* fed_back = std::get_if<protocol::FedBack>(&control)) {
    if (peer == "lead") tell_trainers(*fed_back);
  } else if (const auto* asked = std::get_if<protocol::TreeAsked>(&control)) {
    on_tree_asked(peer, *asked);
  } else if (const auto* taken = std::get_if<protocol::TreeTaken>(&control)) {
    if (serving_) serving_->trees->taken(peer, taken->version);
  } else if (std::holds_alternative<protocol::Detach>(control)) {
    leave(peer);
  }
}

void Keeper::on_attach(const std::string& peer, const protocol::Attach& attach) {
  part();  // those before it have all left
  if (!failure_.ok()) {
    carrier_->send_control(peer, protocol::Refused{failure_});
    return;
  }
  const AttachBook::Connection connection = ++last_connection_;
  const AttachBook::Outcome outcome = book_.attach(connection, attach);
  if (!outcome.refused.ok()) {
    carrier_->send_control(peer, protocol::Refused{outcome.refused});
    return;
  }
  for (const AttachBook::Connection fenced : outcome.fenced) {
    const std::string name = peers_[fenced];
    peers_.erase(fenced);
    connections_.erase(name);
    endpoint_->drop(name, Status(Code::kCancelled, "attempt " + std::to_string(attach.attempt) +
                                                       " has started: this one is over"));
  }
  connections_[peer] = connection;
  peers_[connection] = peer;
  pids_[peer] = attach.process;
  if (attach.attempt != 0 && serving_ && !book_.serving()) stop_serving();
  if (!outcome.disagreement.ok()) return give_up(outcome.disagreement);
  if (!outcome.serve) return;
  if (follows_) return endpoint_->call("lead", arguments_.wire.lead);
  if (Status status = serve(); !status.ok()) give_up(status);
}

void Keeper::on_beat(const std::string& peer, const protocol::Beat& beat) {
  if (!is_trainer(peer) && serving_) {
    for (const protocol::ProcessRoles& process : serving_->supervisor->groups()) {
      if (process.name != peer) continue;
      serving_->supervisor->heard(peer, process.generation, clock_.now_ns());
    }
  }
  if (beat.status.empty()) return;
  Result<EngineStatus> status = decode_engine_status(beat.status);
  if (!status.ok()) return;
  if (serving_) serving_->profiles.told(peer, *status);
  told_[peer] = std::move(*status);
}

// --- Serving ------------------------------------------------------------------------------------

Status Keeper::serve() {
  serving_ = std::make_unique<Serving>();
  serving_->begin_ns = serving_->profiled_ns = clock_.now_ns();
  if (follows_) {
    OVERLORD_TRY(serving_->state, protocol::decode_resume_state(lead_->state));
  } else if (book_.state().empty()) {
    serving_->state = host::start_state(*job_);
  } else {
    OVERLORD_TRY(protocol::ResumeState saved, protocol::decode_resume_state(book_.state()));
    OVERLORD_TRY(serving_->state, resume_from(*job_, file_.index_paths, saved, book_.allowed()));
  }
  serving_->trees = tree_rollout();
  ProcessPlacement placement = place_processes(job_->spec, buckets_, placing());
  for (protocol::ProcessRoles& process : placement.processes) {
    process.generation = generation_base_;
  }
  serving_->supervisor = std::make_unique<host::Supervisor>(std::move(placement.processes));
  carrier_->set_roster(roster());
  if (!follows_) OVERLORD_RETURN_IF_ERROR(start_planner());
  OVERLORD_RETURN_IF_ERROR(start_processes());
  roster_changed();
  return {};
}

Status Keeper::start_planner() {
  host::HostStart start;
  start.job = job_;
  start.ranks = file_.ranks;
  start.options = file_.runtime;
  start.options.threads = 1;
  start.options.io_threads = 1;
  start.hosted.planner = true;
  start.hosted.loaders.emplace();
  start.hosted.constructors.emplace();
  start.hosted.clients.emplace();
  start.attempt = book_.attempt();
  start.generations = later_generations(roster());
  start.state = serving_->state;
  start.fed_back = [this](const model::StepFeedback& feedback) {
    endpoint_->post([this, feedback] { tell_trainers(protocol::FedBack{feedback}); });
  };
  start.tree_changed = [this, attempt = start.attempt](const planner::TreeChanged& change,
                                                       const std::function<void()>& ready) {
    endpoint_->post([this, attempt, change, ready] {
      if (serving_ && book_.attempt() == attempt) serving_->trees->begin(change, ready);
    });
  };
  start.retired = [this, attempt = start.attempt](const protocol::Address& constructor) {
    endpoint_->post([this, attempt, constructor] {
      if (!serving_ || book_.attempt() != attempt) return;
      serving_->supervisor->remove_role(constructor);
      roster_changed();
    });
  };
  OVERLORD_TRY(serving_->planner, RoleRuntime::make(std::move(start), carrier_.get(),
                                                    {{}, file_.journal_path, nullptr}));
  serving_->planner->start_roles();
  return {};
}

Status Keeper::start_processes() {
  protocol::JobFile file = file_;
  file.attempt = book_.attempt();
  file.state = protocol::encode_resume_state(serving_->state);
  OVERLORD_TRY(serving_->job, job_in_memory(file));
  ProcessClusterOptions options;
  options.executable = arguments_.executable;
  options.arguments = role_command(arguments_, job_->spec.name);
  options.job_descriptor = serving_->job.get();
  options.printed = [](const std::string& name, const std::string& line) {
    std::fprintf(stderr, "%s: %s\n", name.c_str(), line.c_str());
  };
  OVERLORD_TRY(serving_->cluster, ProcessCluster::start(std::move(options)));
  serving_->cluster->watch(
      [this](const host::GroupEnd& end) { endpoint_->post([this, end] { on_ended(end); }); });
  for (const protocol::ProcessRoles& process : serving_->supervisor->groups()) {
    serving_->supervisor->placed(process.name, clock_.now_ns());
    OVERLORD_RETURN_IF_ERROR(serving_->cluster->place(process));
  }
  return {};
}

PlacementOptions Keeper::placing() const {
  PlacementOptions out = arguments_.placement;
  out.loaders = !follows_;
  if (follows_) out.prefix = "h" + std::to_string(local_.front()) + "-";
  return out;
}

void Keeper::stop_serving() {
  if (!serving_) return;
  for (const protocol::ProcessRoles& process : serving_->supervisor->groups()) {
    generation_base_ = std::max(generation_base_, process.generation + 1);
    if (endpoint_ && !over_) {
      endpoint_->drop(process.name, Status(Code::kCancelled, "the attempt is over"));
    }
    told_.erase(process.name);
  }
  if (serving_->cluster) serving_->cluster->stop();
  if (serving_->planner) serving_->planner->stop();
  write_last_profiles();
  serving_.reset();
}

void Keeper::on_ended(const host::GroupEnd& end) {
  if (!serving_ || over_) return;
  const host::Supervisor::Decision decision = serving_->supervisor->ended(end, clock_.now_ns());
  if (!decision.give_up.ok()) return give_up(decision.give_up);
  if (!decision.restart) return;
  std::fprintf(stderr, "%s ended with %s and is started again, generation %u\n", end.name.c_str(),
               end.how.c_str(), decision.restart->generation);
  serving_->profiles.ended(end.name);
  wires_.erase(end.name);
  serving_->trees->ended(end.name);
  carrier_->set_roster(roster());
  serving_->supervisor->placed(end.name, clock_.now_ns());
  if (Status status = serving_->cluster->place(*decision.restart); !status.ok()) {
    return give_up(status);
  }
  for (const protocol::Address& role : decision.restart->roles) {
    if (serving_->planner) {
      serving_->planner->host().peer_restarted(role, decision.restart->generation);
    }
  }
  roster_changed();
}

void Keeper::welcome_all() {
  if (serving_->welcomed) return;
  const bool waits = !follows_ && arguments_.wire.several_hosts();
  // Followers are told first: their constructors may be what our own ranks wait for.
  for (const auto& [connection, ranks] : book_.attached()) {
    const std::string& peer = peers_[connection];
    if (waits && peer.starts_with("host-") && serving_->told.insert(peer).second) {
      carrier_->send_control(peer, welcome_for(ranks));
      carrier_->send_control(peer, roster());
    }
  }
  if (!rosters().knows_constructors(local_, *views_)) return;
  for (const protocol::ProcessRoles& process : serving_->supervisor->groups()) {
    if (!carrier_->connected(process.name)) return;
  }
  serving_->welcomed = true;
  for (const auto& [connection, ranks] : book_.attached()) {
    if (peers_[connection].starts_with("host-")) continue;
    carrier_->send_control(peers_[connection], welcome_for(ranks));
    for (const auto& [id, note] : notes_) carrier_->send_control(peers_[connection], note);
  }
}

protocol::Welcome Keeper::welcome_for(const std::vector<Rank>& ranks) const {
  protocol::Welcome out = make_welcome(*job_, file_.runtime, *views_, rosters(), ranks);
  out.versions = follows_ ? lead_->versions : serving_->planner->host().versions();
  out.state = protocol::encode_resume_state(serving_->state);
  return out;
}

HostRosters Keeper::rosters() const {
  HostRosters out{local_.front(), {}, elsewhere_};
  if (!serving_) return out;
  out.own.processes = serving_->supervisor->groups();
  for (protocol::ProcessRoles& process : out.own.processes) {
    process.host = local_.front();
    const auto wire = wires_.find(process.name);
    if (wire != wires_.end()) process.wire = wire->second;
  }
  return out;
}

void Keeper::tell_trainers(const Control& control) {
  for (const auto& [connection, peer] : peers_) carrier_->send_control(peer, control);
}

void Keeper::tell_processes(const Control& control) {
  for (const protocol::ProcessRoles& process : serving_->supervisor->groups()) {
    carrier_->send_control(process.name, control);
  }
}

// The job cannot go on: everybody is told why, and the node ends when they have left.
void Keeper::give_up(const Status& status) {
  if (!failure_.ok() || over_) return;
  failure_ = status;
  std::fprintf(stderr, "%s\n", status.message().c_str());
  tell_trainers(protocol::Refused{status});
  stop_serving();
  if (peers_.empty()) end(1);
}

void Keeper::watch_silence() {
  if (over_) return;
  trace_.poll();
  write_profiles_now_and_then();
  if (serving_) {
    for (const std::string& name : serving_->supervisor->silent(clock_.now_ns())) {
      std::fprintf(stderr, "%s says nothing and is killed\n", name.c_str());
      serving_->cluster->kill(name);
    }
  }
  endpoint_->post_after(kWatchNs, [this] { watch_silence(); });
}

// --- What others may know -----------------------------------------------------------------------

NodeStatus Keeper::status() {
  NodeStatus out;
  out.job = job_->spec.name;
  out.stream = job_->spec.stream;
  out.attempt = book_.attempt();
  out.serving = serving_ != nullptr;
  out.process = static_cast<uint32_t>(getpid());
  out.missing = book_.missing();
  out.gone = book_.gone();
  const bool plans = serving_ && serving_->planner;
  out.waits = what_is_waited_for(book_.gone(), job_->spec,
                                 plans ? &serving_->planner->host().planner_probe() : nullptr);
  if (const std::string tree = serving_ ? serving_->trees->waits() : ""; !tree.empty()) {
    out.waits += (out.waits.empty() ? "" : "; ") + tree;
  }
  if (serving_ && serving_->planner) out.engine = serving_->planner->status();
  for (const auto& [name, part] : told_) merge_status(part, &out.engine);
  if (!serving_) return out;
  out.restarts = serving_->supervisor->restarts();
  for (const protocol::ProcessRoles& process : serving_->supervisor->groups()) {
    out.processes.push_back({process.name,
                             static_cast<uint32_t>(serving_->cluster->process_of(process.name)),
                             process.generation, process.generation - generation_base_,
                             carrier_->connected(process.name), process.roles.size()});
  }
  for (const auto& [connection, peer] : peers_) {
    out.processes.push_back(
        {peer, pids_[peer], 1, 0, true, book_.attached().at(connection).size()});
  }
  return out;
}

void Keeper::end(int code) {
  if (over_) return;
  over_ = true;
  ended_.set_value(code);
}

int run_keeper(const KeeperArguments& arguments, const protocol::JobFile& job) {
  Keeper keeper(arguments, job);
  if (Status status = keeper.open(); !status.ok()) {
    std::fprintf(stderr, "%s\n", status.message().c_str());
    return 1;
  }
  return keeper.wait();
}

}  // namespace overlord::node
