#include "overlord/node/keeper/keeper.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "overlord/host/media_checks.h"
#include "overlord/node/engine/data_match.h"
#include "overlord/node/engine/job_memory.h"
#include "overlord/node/engine/open_files.h"
#include "overlord/node/hosts/decoding.h"
#include "overlord/node/hosts/near_files.h"
#include "overlord/node/hosts/usable_cores.h"
#include "overlord/node/keeper/job_keeper.h"
#include "overlord/node/keeper/role_cluster.h"
#include "overlord/node/keeper/welcome.h"
#include "overlord/node/recovery/living_process.h"
#include "overlord/plan/place/place_tree.h"
#include "overlord/protocol/plan_codec.h"
#include "overlord/roles/keeper/hosts.h"
#include "overlord/roles/keeper/peer_names.h"

namespace overlord::node {
namespace {

constexpr int64_t kWatchNs = 250'000'000;
constexpr int64_t kAwayNs = 1'000'000'000;        // between two looks: we were not there
constexpr int64_t kComeAgainNs = 10'000'000'000;  // for ranks that live to call a node again

// A slot is one line, whoever follows it.
void count_shadows(NodeStatus* status) {
  std::erase_if(status->engine.loaders, [status](const LoaderStatus& loader) {
    if (loader.standby) status->shadow_bytes += loader.buffer_bytes;
    return loader.standby;
  });
}

std::vector<HostStatus> hosts_of(const keeper::KeeperState& state) {
  const auto* serving = state.serving();
  std::vector<HostStatus> out = {serving == nullptr
                                     ? HostStatus{"", true, state.job().gives}
                                     : HostStatus{"", !serving->local.empty(), serving->gives}};
  for (const auto& [peer, host] : state.hosts()) out.push_back({peer, host.ranks, host.gives});
  for (const std::string& peer : state.lost_hosts()) out.push_back({peer, false, {}, 0, true});
  if (serving == nullptr) return out;
  for (const auto& [name, home] : serving->homes) {
    for (HostStatus& host : out) host.groups += home.lives == host.name ? 1 : 0;
  }
  return out;
}

}  // namespace

JobKeeper::JobKeeper(const KeeperArguments& arguments, const protocol::JobFile& file)
    : arguments_(arguments),
      file_(file),
      local_(arguments.local.empty() ? file.ranks : arguments.local),
      follows_(arguments.wire.several_hosts() && !arguments.wire.leads),
      notes_of_run_(arguments.directory, arguments.run, arguments.job),
      trace_(arguments.directory, "node") {}

JobKeeper::~JobKeeper() {
  metrics_.reset();
  if (endpoint_) endpoint_->close();
  stop_serving();
  if (!superseded_ || claims()) end_groups(left_);  // nobody has come for them
}

Status JobKeeper::open() {
  OVERLORD_TRY(const auto storage, open_storage_of(file_.spec, {runtime::BufferPool::make(0), 1,
                                                                file_.runtime.open_files}));
  OVERLORD_TRY(job_,
               open_files(file_.spec, file_.delivery, file_.mesh, file_.index_paths, *storage));
  OVERLORD_RETURN_IF_ERROR(check_node_can_plan(*job_, file_.ranks));
  OVERLORD_RETURN_IF_ERROR(find_left());
  views_ = plan::make_views(job_->mesh, job_->delivery, 1, job_->spec.strategy);
  keeper_ = std::make_unique<keeper::Keeper>(keeper_job(), *this);
  carrier_ = std::make_unique<transport::Carrier>(carrier_options());
  if (!follows_) carrier_->host({protocol::planner_address()});
  OVERLORD_RETURN_IF_ERROR(open_endpoint());
  metrics_ = open_metrics(
      arguments_, [this](runtime::Task task) { endpoint_->post(std::move(task)); },
      [this] { return status(); });
  endpoint_->post([this] { watch(); });
  after(arguments_.attach_ms * 1'000'000,
        [this] { receive(keeper::Expired{keeper::Timer::kAttach}); });
  if (comes_again()) {
    after(kComeAgainNs, [this] { receive(keeper::Expired{keeper::Timer::kComeAgain}); });
  }
  return {};
}

keeper::KeeperJob JobKeeper::keeper_job() const {
  keeper::KeeperJob out;
  out.job = arguments_.job;
  out.ranks = file_.ranks;
  out.local = local_;
  out.leads = !follows_;
  out.alone = !arguments_.wire.several_hosts();
  out.stays = arguments_.stays;
  out.lead = arguments_.wire.lead;
  if (arguments_.lead_returns) out.lead_back_ns = arguments_.recovery_ms * 1'000'000;
  out.attempt = arguments_.attempt;
  out.process = static_cast<uint32_t>(getpid());
  out.generation = generation();
  out.comes_again = comes_again();
  out.begun = left_.attempt;
  out.living = left_.placements();
  out.came_before = left_.local;
  const std::vector<uint32_t> buckets = keeper::buckets_of_host(*views_, file_.ranks, local_);
  out.groups = keeper::place_processes(job_->spec, buckets, placing()).processes;
  out.gives = arguments_.gives;
  if (claims()) out.gives.leads_at = arguments_.wire.at;
  out.cores = usable_cores();
  out.gives.cores = plan::spare_cores(out.cores, keeper::constructors_of(out.groups), out.leads);
  note_files(job_->spec, &out.gives);
  out.slot_millicores = plan::slot_millicores(job_->spec.sources);
  out.views = views_;
  out.welcome = make_welcome(*job_, file_.runtime, *views_);
  return out;
}

keeper::PlacementOptions JobKeeper::placing() const {
  keeper::PlacementOptions out = arguments_.placement;
  out.loaders = !follows_;
  if (follows_) out.prefix = "h" + std::to_string(local_.front()) + "-";
  return out;
}

Status JobKeeper::open_endpoint() {
  transport::EndpointOptions options;
  options.directory = arguments_.directory;
  options.self.name = "node";
  options.self.job = job_->config.low;
  if (!follows_) options.self.roles = {protocol::planner_address()};
  options.admit = [this](const protocol::Hello& hello) { return keeper_->admit(hello); };
  options.connected = [this](const protocol::Hello& hello) { receive(keeper::Connected{hello}); };
  options.lost = [this](const std::string& peer) {
    receive(keeper::Lost{peer});
    starved_there_.erase(peer);
    if (serving_ && serving_->cluster) serving_->cluster->host_left(peer);
  };
  options.refused = [this](const std::string& peer, const Status& why) {
    receive(keeper::CannotServe{why.with_context(peer)});
  };
  OVERLORD_TRY(options.security, read_security(arguments_.wire));
  options.limits = wire_limits(arguments_.wire);
  options.pool = runtime::BufferPool::make(64 << 20);
  options.wire_name =
      follows_ ? "host-" + std::to_string(local_.front()) + "@" + std::to_string(getpid()) : "lead";
  OVERLORD_TRY(endpoint_, transport::Endpoint::open(std::move(options), carrier_.get()));
  if (arguments_.wire.leads) {
    OVERLORD_RETURN_IF_ERROR(endpoint_->listen_wire(arguments_.wire.own()).status());
  }
  return endpoint_->listen("node");
}

transport::CarrierOptions JobKeeper::carrier_options() {
  transport::CarrierOptions options;
  options.name = "node";
  options.plans.views = {views_};
  options.plans.sources = static_cast<uint32_t>(job_->sources.size());
  options.deliver = [this](protocol::Envelope envelope) {
    if (follows_) return carrier_->send(std::move(envelope));  // between ranks here and the lead
    if (serving_ && serving_->planner) serving_->planner->host().deliver(std::move(envelope));
  };
  options.control = [this](const std::string& peer, protocol::Control control) {
    hear(peer, std::move(control));
  };
  options.nonsense = [](const std::string& peer, const Status& status) {
    std::fprintf(stderr, "%s sent nonsense: %s\n", peer.c_str(), status.message().c_str());
  };
  return options;
}

// What the cluster has to know goes to it.
void JobKeeper::hear(const std::string& peer, protocol::Control control) {
  if (const auto* gone = std::get_if<protocol::GroupGone>(&control)) {
    if (serving_ && serving_->cluster) serving_->cluster->hear(peer, *gone);
  } else if (auto* starve = std::get_if<protocol::GroupsStarve>(&control)) {
    starved_there_[peer] = std::move(starve->names);
  } else if (const auto* asked = std::get_if<protocol::GroupAsked>(&control)) {
    if (follows_ && peer == "lead") lent().hear(*asked);
  } else if (const auto* unasked = std::get_if<protocol::GroupUnasked>(&control)) {
    if (lent_) lent_->hear(*unasked);
  } else if (const Status unseen = see_mark(control); !unseen.ok()) {
    carrier_->send_control(peer, protocol::Refused{unseen});
  } else {
    receive(keeper::Heard{peer, std::move(control)});
  }
}

// What the lead runs on the cores of this host is the lead's: it is told of it, and nobody here.
LentGroups& JobKeeper::lent() {
  if (!lent_) {
    lent_ = std::make_unique<LentGroups>(lent_to_lead(arguments_, file_, *carrier_, *endpoint_));
  }
  return *lent_;
}

// --- What the keeper asks of its process --------------------------------------------------------

void JobKeeper::after(int64_t delay_ns, runtime::Task task) {
  endpoint_->post_after(delay_ns, std::move(task));
}

void JobKeeper::carry_out(const keeper::Tell& tell) {
  carrier_->send_control(tell.peer, tell.control);
}

// A role process of the next attempt may have the name, and on another host the generation, of one
// that is over.
void JobKeeper::carry_out(const keeper::Drop& drop) {
  endpoint_->drop(drop.peer, drop.why);
  if (!keeper::is_trainer(drop.peer)) carrier_->forget(drop.peer);
}

void JobKeeper::carry_out(const keeper::CallLead&) {
  endpoint_->call("lead", arguments_.wire.lead);
}

// The carrier first: what the planner sends to the new must not go to the dead.
void JobKeeper::carry_out(const keeper::SetRoster& set) {
  carrier_->set_roster(set.roster);
  for (const protocol::ProcessRoles& process : set.roster.processes) {
    uint32_t& known = known_.try_emplace(process.name, process.generation).first->second;
    if (process.generation <= known) continue;
    known = process.generation;
    if (serving_) serving_->profiles.ended(process.name);
  }
  const std::vector<protocol::RoleGeneration> restarted = restarts_.take(set.roster);
  if (!serving_ || !serving_->planner) return;
  for (const protocol::RoleGeneration& one : restarted) {
    serving_->planner->host().peer_restarted(one.role, one.generation);
  }
}

void JobKeeper::carry_out(const keeper::Say& say) {
  std::fprintf(stderr, "%s\n", say.text.c_str());
}

void JobKeeper::carry_out(const keeper::TreeReady&) {
  if (const auto ready = std::exchange(serving_->tree_ready, nullptr)) ready();
}

void JobKeeper::carry_out(const keeper::RebuildTree& rebuild) {
  const auto answer = [this, rebuild](const Result<StepIndex>& first) {
    protocol::TreeAnswered out{rebuild.question, std::nullopt, 0};
    if (first.ok()) {
      out.first_step = *first;
    } else {
      out.refused = first.status();
    }
    endpoint_->post([this, peer = rebuild.peer, out] { carrier_->send_control(peer, out); });
  };
  serving_->planner->host().rebuild_tree({rebuild.mesh, rebuild.step, rebuild.ranks}, answer);
}

void JobKeeper::carry_out(const keeper::TellStatus& tell) {
  carrier_->send_control(tell.peer, protocol::StatusTold{encode_node_status(status())});
}

void JobKeeper::carry_out(const keeper::NoteStatus& note) {
  Result<EngineStatus> status = decode_engine_status(note.status);
  if (!status.ok()) return;
  if (serving_) serving_->profiles.told(note.peer, *status);
  told_[note.peer] = std::move(*status);
}

void JobKeeper::carry_out(const keeper::ForgetStatus& forget) { told_.erase(forget.peer); }

// --- Serving ------------------------------------------------------------------------------------

keeper::Begun JobKeeper::begin(const keeper::Begin& attempt) {
  if (const Status leads = still_leads(); !leads.ok()) {
    superseded_ = leads.code() == Code::kUnavailable;
    keeper::Begun out{leads};
    out.superseded = superseded_;
    return out;
  }
  serving_ = std::make_unique<Serving>();
  restarts_ = {};
  serving_->begin_ns = serving_->profiled_ns = clock_.now_ns();
  const Result<protocol::ResumeState> state = first_state(attempt);
  keeper::Begun out{state.ok() ? prepare(attempt, *state) : state.status()};
  if (!out.status.ok()) return out;
  out.state = protocol::encode_resume_state(*state);
  out.run = serving_->run;
  out.running = serving_->cluster->placed();
  if (serving_->planner) out.versions = serving_->planner->host().versions();
  if (serving_->planner) add_folded(&out);
  return out;
}

// Where another node plans, it has said from where.
Result<protocol::ResumeState> JobKeeper::first_state(const keeper::Begin& attempt) const {
  if (attempt.state.empty()) return host::start_state(*job_);
  OVERLORD_TRY(protocol::ResumeState saved, protocol::decode_resume_state(attempt.state));
  if (follows_) return saved;
  return resume_from(*job_, file_.index_paths, saved, attempt.allowed);
}

Status JobKeeper::prepare(const keeper::Begin& attempt, const protocol::ResumeState& state) {
  protocol::JobFile file = file_;
  file.attempt = attempt.attempt;
  file.state = protocol::encode_resume_state(state);
  if (!follows_) serving_->decoding = choose_decoding();
  if (!follows_) host::set_decoding(serving_->decoding, &file.spec);
  OVERLORD_TRY(serving_->job, job_in_memory(file));
  OVERLORD_RETURN_IF_ERROR(start_cluster(attempt, file.state));
  keeper::Begin living = attempt;
  living.roster = roster_of_living(attempt.roster);
  carry_out(keeper::SetRoster{living.roster});  // the planner sends as soon as it is there
  return follows_ ? Status() : start_planner(living, state);
}

// By the hosts that there are when an attempt begins; where the attempt goes on with others, what
// was chosen stays.
std::vector<plan::DecodeChoice> JobKeeper::choose_decoding() const {
  const keeper::KeeperState& state = keeper_->state();
  plan::DecodeRoom room{arguments_.wire.several_hosts(), 0, 0};
  (local_.empty() ? room.far_cores : room.near_cores) += state.job().gives.cores;
  for (const auto& [peer, host] : state.hosts()) {
    (host.ranks ? room.near_cores : room.far_cores) += host.gives.cores;
  }
  return node::choose_decoding(*job_, room);
}

Status JobKeeper::start_planner(const keeper::Begin& attempt, const protocol::ResumeState& state) {
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
  start.attempt = attempt.attempt;
  start.generations = keeper::later_generations(attempt.roster);
  start.run = serving_->run;
  start.state = state;
  // Another attempt may have begun before the loop gets there.
  const auto post = [this, number = attempt.attempt](runtime::Task task) {
    endpoint_->post([this, number, task = std::move(task)] {
      if (serving_ && keeper_->state().book().attempt() == number) task();
    });
  };
  start.fed_back = [this, post](const model::StepFeedback& feedback) {
    post([this, feedback] { receive(keeper::FeedbackCounts{feedback}); });
  };
  start.tree_changed = [this, post](const planner::TreeChanged& change,
                                    const std::function<void()>& ready) {
    post([this, change, ready] { change_tree(change, ready); });
  };
  start.retired = [this, post](const protocol::Address& constructor) {
    post([this, constructor] { receive(keeper::ConstructorRetired{constructor}); });
  };
  start.superseded = [this, post](const Status& why) {
    post([this, why] {
      superseded_ = true;
      receive(keeper::Superseded{why});
    });
  };
  RoleRuntimeOptions options;
  options.journal = journal_folder();
  options.begun = !attempt.run.empty();
  OVERLORD_TRY(serving_->planner,
               RoleRuntime::make(std::move(start), carrier_.get(), std::move(options)));
  if (const auto& folded = serving_->planner->folded()) {
    carry_out(keeper::Say{"the planner goes on from its journal at step " +
                          std::to_string(folded->next_step()) + ", term " +
                          std::to_string(serving_->planner->term())});
  }
  serving_->planner->start_roles();
  return {};
}

// Its constructors live in the processes that there are, and in new ones where the config wants
// more. One tree at a time: the planner waits for `ready`.
void JobKeeper::change_tree(const planner::TreeChanged& change,
                            const std::function<void()>& ready) {
  serving_->tree_ready = ready;
  receive(keeper::TreeChanged{placed_tree(change)});
}

keeper::TreePlaced JobKeeper::placed_tree(const planner::TreeChanged& change) const {
  const planner::Tree& tree = change.tree;
  protocol::TreeTold told{tree.version,     change.first_step,
                          tree.mesh.axes(), protocol::encode_views(*tree.views),
                          tree.ranks,       change.again};
  if (change.restart) {
    told.restart = protocol::encode_stream_state(change.restart->state);
    told.content_chain = change.restart->content_chain;
    told.plan_chain = change.restart->plan_chain;
  }
  return {std::move(told), keeper::place_tree(job_->spec, *tree.views, placing())};
}

void JobKeeper::stop_serving() {
  lent_.reset();
  if (!serving_) return;
  if (serving_->cluster && superseded_ && !claims()) serving_->cluster->here().leave();
  if (serving_->cluster) serving_->cluster->stop();
  if (serving_->planner) serving_->planner->stop();
  write_last_profiles();
  serving_.reset();
}

void JobKeeper::watch() {
  if (keeper_->state().over()) return;
  trace_.poll();
  write_profiles_now_and_then();
  look_for_other_nodes();
  look_for_other_leads();
  // Who was away itself, stopped or without a CPU, has not read yet what others said meanwhile.
  const int64_t passed_ns = clock_.now_ns() - std::exchange(watched_ns_, clock_.now_ns());
  if (passed_ns < kAwayNs) receive(keeper::Watched{starved_groups()});
  if (lent_) lent_->look(clock_.now_ns());
  after(kWatchNs, [this] { watch(); });
}

// Of those that say nothing: whoever would run if there were a CPU for it is not hung.
std::set<std::string> JobKeeper::starved_groups() {
  std::set<std::string> starved;
  const auto* serving = keeper_->state().serving();
  if (serving == nullptr || !serving_ || !serving_->cluster) return starved;
  for (const std::string& name : serving->supervisor.silent(clock_.now_ns())) {
    if (wants_to_run(serving_->cluster->process_of(name))) starved.insert(name);
  }
  for (const auto& [host, names] : starved_there_) starved.insert(names.begin(), names.end());
  return starved;
}

// Ranks that we miss may be with another node, because their job differs.
void JobKeeper::look_for_other_nodes() {
  if (serving_) return notes_of_run_.stop();
  const keeper::AttachBook& book = keeper_->state().book();
  std::vector<Rank> here;
  for (const auto& [peer, trainer] : book.attached()) {
    here.insert(here.end(), trainer.ranks.begin(), trainer.ranks.end());
  }
  const auto differ = notes_of_run_.look(here, book.missing(), clock_.now_ns());
  if (differ) receive(keeper::RanksDiffer{*differ});
}

// --- What others may know -----------------------------------------------------------------------

NodeStatus JobKeeper::status() {
  const keeper::KeeperState& state = keeper_->state();
  NodeStatus out;
  out.job = job_->spec.name;
  out.stream = job_->spec.stream;
  out.attempt = state.book().attempt();
  out.recoveries = generation() - 1;
  if (serving_ && serving_->planner) out.term = serving_->planner->term();
  out.journal = follows_ ? "" : journal_folder();
  out.serving = serving_ != nullptr;
  out.process = static_cast<uint32_t>(getpid());
  out.missing = state.book().missing();
  out.gone = state.book().gone();
  const bool plans = serving_ && serving_->planner;
  out.waits = what_is_waited_for(out.gone, job_->spec,
                                 plans ? &serving_->planner->host().planner_probe() : nullptr);
  for (const auto& [peer, attach] : state.waiting()) {
    out.waits += (out.waits.empty() ? "" : "; ") + peer + " waits for all to end what it has read";
  }
  if (const std::string tree = state.tree_waits(); !tree.empty()) {
    out.waits += (out.waits.empty() ? "" : "; ") + tree;
  }
  if (plans) out.engine = serving_->planner->status();
  if (const auto& asked = out.engine.planner.waits_for_function) {
    out.waits += (out.waits.empty() ? "" : "; ") + function_wait_text(*asked);
  }
  if (out.engine.planner.journal.waits_for_space) {
    out.waits += (out.waits.empty() ? "" : "; ") +
                 ("the planner waits for space on the disk of " + out.journal);
  }
  for (const auto& [name, part] : told_) merge_status(part, &out.engine);
  count_shadows(&out);
  if (!follows_) out.hosts = hosts_of(state);
  if (serving_) out.decoding = serving_->decoding;
  std::erase_if(out.decoding, [](const plan::DecodeChoice& one) { return one.why.empty(); });
  if (state.serving() == nullptr) return out;
  const keeper::Supervisor& supervisor = state.serving()->supervisor;
  out.restarts = supervisor.restarts();
  out.promotions = supervisor.promotions();
  out.shadowed = state.protection().shadowed;
  out.unprotected = state.protection().unprotected;
  const auto whys = keeper::reasons_of_homes(state);
  for (const protocol::ProcessRoles& process : supervisor.groups()) {
    // One that a keeper before this one placed has an earlier generation.
    const uint32_t first = std::min(process.generation, state.first_generation());
    const auto why = whys.find(process.name);
    out.processes.push_back({process.name, serving_->cluster->process_of(process.name),
                             process.generation, process.generation - first,
                             state.connected(process), process.roles.size(),
                             state.host_of(process.name), why == whys.end() ? "" : why->second});
  }
  for (const auto& [peer, trainer] : state.book().attached()) {
    out.processes.push_back({peer, trainer.process, 1, 0, true, trainer.ranks.size()});
  }
  return out;
}

void JobKeeper::end_because(const Status& why) {
  endpoint_->post([this, why] { receive(keeper::ToldToEnd{why}); });
}

std::optional<keeper::FailureBook> run_keeper(const KeeperArguments& arguments,
                                              const protocol::JobFile& job, LifeLine& line,
                                              bool* superseded) {
  JobKeeper keeper(arguments, job);
  Status status = keeper.open();
  if (status.ok()) {
    status =
        line.watch(arguments.owner(), [&keeper](const Status& why) { keeper.end_because(why); });
  }
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.message().c_str());
    const bool all = arguments.local.empty() || arguments.wire.leads;
    return keeper::FailureBook(status, arguments.attempt, all ? job.ranks : arguments.local);
  }
  keeper.wait();
  line.unwatch();
  if (superseded != nullptr) *superseded = keeper.superseded();
  return keeper.failure();
}

}  // namespace overlord::node
