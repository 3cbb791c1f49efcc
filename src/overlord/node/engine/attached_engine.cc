#include "overlord/node/engine/attached_engine.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>

#include "overlord/base/guarded_by.h"
#include "overlord/node/engine/held_batch.h"
#include "overlord/node/engine/late_rows.h"
#include "overlord/node/recovery/node_restart.h"
#include "overlord/runtime/steady_clock.h"
#include "overlord/transport/socket_directory.h"

namespace overlord::node {
namespace {

constexpr int64_t kAnswerMs = 10'000;  // a node that says nothing for so long is no use
constexpr int64_t kStatusMs = 2000;
constexpr int64_t kLeftoverWaitNs = 2'000'000'000;  // until a killed node's lock is released
constexpr int64_t kTreeMs = 60'000;                 // until all processes have taken a new tree

std::string name_of(const AttachRequest& request) {
  return "rank-" + std::to_string(request.ranks.front()) + "@" + std::to_string(getpid()) + "." +
         std::to_string(request.attempt);
}

// A node that was killed could not clean up behind itself. Whoever gets its lock does; a node that
// was started meanwhile has it.
void remove_leftovers(const std::string& path) {
  Result<transport::SocketDirectory> directory = transport::SocketDirectory::find(path);
  if (!directory.ok()) return;
  // The kernel closes a dead process's files one by one: its links may end before its lock does.
  Result<transport::DirectoryLock> lock =
      directory->lock(runtime::steady_now_ns() + kLeftoverWaitNs);
  if (!lock.ok()) return;
  static_cast<void>(directory->remove(std::move(*lock)));
}

// Somebody has its lock: a node that has not answered yet, or one that is being started.
bool has_node(const std::string& path) {
  Result<transport::SocketDirectory> directory = transport::SocketDirectory::find(path);
  if (!directory.ok()) return false;
  const Result<std::optional<transport::DirectoryLock>> lock = directory->try_lock();
  return lock.ok() && !*lock;
}

}  // namespace

AttachedEngine::AttachedEngine(AttachRequest request)
    : request_(std::move(request)),
      trace_(request_.directory, name_of(request_)),
      losses_({request_.recovery_ms * 1'000'000}),
      starter_(std::make_unique<NodeStarter>(request_.directory)) {}

Result<std::unique_ptr<AttachedEngine>> AttachedEngine::attach(AttachRequest request) {
  std::sort(request.ranks.begin(), request.ranks.end());
  if (request.ranks.empty()) return invalid_argument("ranks: at least one is needed");
  std::unique_ptr<AttachedEngine> engine(new AttachedEngine(std::move(request)));
  OVERLORD_RETURN_IF_ERROR(engine->open());
  if (const Status status = engine->wait_for_welcome(); !status.ok()) {
    const std::lock_guard lock(engine->mutex_);
    if (engine->no_node_) return std::unique_ptr<AttachedEngine>();
    return status;
  }
  OVERLORD_RETURN_IF_ERROR(engine->start_clients());
  return engine;
}

Status AttachedEngine::open() {
  carrier_ = std::make_unique<transport::Carrier>(carrier_options());
  transport::EndpointOptions options;
  options.directory = request_.directory;
  options.self.name = name_of(request_);
  options.self.attempt = request_.attempt;
  for (const Rank rank : request_.ranks) {
    options.self.roles.push_back(protocol::client_address(rank));
  }
  carrier_->host(options.self.roles);
  options.connected = [this](const protocol::Hello& hello) {
    if (hello.name == "node") attach_to_node();
  };
  options.lost = [this](const std::string& peer) { on_lost(peer); };
  options.refused = [this](const std::string& peer, const Status& why) {
    fail(why.with_context(peer));
  };
  OVERLORD_TRY(options.security, read_security(request_.wire));
  options.pool = runtime::BufferPool::make(256 << 20);
  OVERLORD_TRY(endpoint_, transport::Endpoint::open(std::move(options), carrier_.get()));
  endpoint_->call("node");
  endpoint_->post([this] { beat(); });
  return {};
}

void AttachedEngine::attach_to_node() {
  if (losses_.missing()) starter_->rest();
  losses_.answered();
  carrier_->send_control(
      "node", protocol::Attach{request_.attempt, request_.job, request_.state, request_.allowed,
                               request_.ranks, static_cast<uint32_t>(getpid()), run_});
  const std::lock_guard lock(mutex_);
  connected_ = true;
  if (losses_.missing() && status_waits_ > 0) {
    carrier_->send_control("node", protocol::StatusAsked{});
  }
  changed_.notify_all();
}

transport::CarrierOptions AttachedEngine::carrier_options() {
  transport::CarrierOptions options;
  options.name = name_of(request_);
  options.segments.pinning = request_.pinning;
  // What CUDA registers has to stay where the device reads it; all else may be written here.
  options.segments.private_pages = request_.pinning == nullptr;
  options.deliver = [this](protocol::Envelope envelope) { deliver(std::move(envelope)); };
  options.control = [this](const std::string& peer, protocol::Control control) {
    if (peer == "node") on_control(control);
  };
  options.nonsense = [this](const std::string& peer, const Status& status) {
    fail(status.with_context(peer + " sent nonsense"));
  };
  return options;
}

Status AttachedEngine::wait_for_welcome() {
  std::unique_lock lock(mutex_);
  is_held(mutex_);
  const auto answered = [this]() OVERLORD_REQUIRES(mutex_) { return connected_ || !failure_.ok(); };
  const int64_t deadline_ns = runtime::steady_now_ns() + request_.timeout_ms * 1'000'000;
  while (!changed_.wait_for(lock, std::chrono::milliseconds(request_.connect_ms), answered)) {
    lock.unlock();
    const bool there = runtime::steady_now_ns() < deadline_ns && has_node(request_.directory);
    lock.lock();
    if (there) continue;
    no_node_ = true;
    return {Code::kUnavailable, "no node answers in " + request_.directory};
  }
  changed_.wait_for(lock, std::chrono::milliseconds(request_.timeout_ms),
                    [this]() OVERLORD_REQUIRES(mutex_) { return welcomed_ || !failure_.ok(); });
  if (!failure_.ok()) return failure_;
  if (welcomed_) return {};
  return {Code::kDeadline,
          "the node has not started to serve: not all ranks of this host have "
          "attached, or it cannot open the sources"};
}

RankSeats::Wiring AttachedEngine::seat_wiring() {
  RankSeats::Wiring wiring;
  wiring.consumed = [this](Rank rank, StepIndex step, uint32_t tree) {
    Hosted& at = hosted_.at(rank);
    at.loop->post([client = at.client.get(), step, tree] { client->consumed(step, tree); });
  };
  wiring.tell_planner = [this](Rank rank, protocol::Message message) {
    Hosted& at = hosted_.at(rank);
    at.loop->post([client = at.client.get(), message = std::move(message)] {
      client->tell_planner(message);
    });
  };
  wiring.probe = [this](Rank rank) -> client::ClientProbe& {
    return hosted_.at(rank).client->probe();
  };
  wiring.at_end = [this](const model::StreamState& after) { return late_rows_over_budget(after); };
  wiring.explain_wait = [this](Rank rank, StepIndex step) { return explain_wait(rank, step); };
  wiring.metric_driven = welcome_.metric_driven;
  wiring.planner_waits_for_disk = [this] { return planner_waits_for_disk(); };
  wiring.give_out = [this](model::MicrobatchPtr batch) { return give_out(std::move(batch)); };
  wiring.may_begin = [this](Rank rank, StepIndex step, int64_t timeout_ms) {
    return may_begin(rank, step, timeout_ms);
  };
  wiring.begin = [this](Rank rank, StepIndex step) { return begin(rank, step); };
  return wiring;
}

Status AttachedEngine::start_clients() {
  // One that comes back alone stands where its own state says.
  const bool returns = welcome_.versions.generation > 1 && !request_.state.empty();
  OVERLORD_TRY(protocol::ResumeState state,
               protocol::decode_resume_state(returns ? request_.state : welcome_.state));
  const StepIndex first_step = state.state.next_step;
  OVERLORD_TRY(const auto views, protocol::decode_views(welcome_.view_table));
  OVERLORD_TRY(reach_,
               RankReach::open(request_.directory, static_cast<uint32_t>(views->by_rank.size())));
  for (const Rank rank : request_.ranks) reach_->join(rank, first_step);
  seats_ = std::make_unique<RankSeats>(request_.ranks, state, welcome_.feedback_kept, clock_,
                                       seat_wiring());
  std::map<protocol::Address, uint32_t> generations;
  generations[protocol::planner_address()] = welcome_.term;
  for (const protocol::ConstructorPlace& place : welcome_.constructors) {
    generations[protocol::constructor_address(place.bucket)] = place.generation;
  }
  for (size_t i = 0; i < request_.ranks.size(); ++i) {
    const Rank rank = request_.ranks[i];
    Hosted& hosted = hosted_[rank];
    // On the links' own thread: a client does little, and another thread would be one more to wake.
    hosted.loop = std::make_unique<Loop>(*endpoint_, [](runtime::Task&& task) { task(); });
    hosted.client = std::make_unique<client::Client>(
        client::ClientJob{rank, welcome_.views[i].bucket, welcome_.prefetch_steps,
                          welcome_.versions, welcome_.feedback_kept},
        first_step,
        client::ClientSeams{
            carrier_.get(),
            [this, rank](client::ReadyStep ready) { hand_over(rank, std::move(ready)); },
            [this, rank](protocol::ReportAnswered answer) { seats_->answer(rank, answer); },
            [this, rank](model::StepFeedback question) {
              seats_->rule_asked(rank, std::move(question));
            },
            [this, rank](const protocol::CalloutAsked& asked) {
              seats_->callout_asked(rank, asked);
            }},
        protocol::PeerGenerations(generations));
  }
  endpoint_->post([this] {
    protocol::Hello self;
    self.name = name_of(request_);
    self.job = welcome_.versions.job;
    self.attempt = request_.attempt;
    for (const Rank rank : request_.ranks) self.roles.push_back(protocol::client_address(rank));
    endpoint_->introduce(std::move(self));
    std::set<uint32_t> needed;
    for (const model::ClientView& view : welcome_.views) needed.insert(view.bucket);
    for (const protocol::ConstructorPlace& place : welcome_.constructors) {
      if (needed.contains(place.bucket)) endpoint_->call(place.process, place.wire);
    }
    started_ = true;
    for (protocol::Envelope& envelope : std::exchange(early_, {})) deliver(std::move(envelope));
    tell_status();  // a short run may be over before the next beat
    std::map<uint32_t, protocol::TreeTold> trees;
    {
      const std::lock_guard lock(mutex_);
      trees = trees_;
    }
    for (const auto& [version, tree] : trees) take_tree(tree);
  });
  for (auto& [rank, hosted] : hosted_) {
    hosted.loop->post([client = hosted.client.get()] { client->start(); });
  }
  return {};
}

// --- What comes from others, on the loop's thread -----------------------------------------------

void AttachedEngine::deliver(protocol::Envelope envelope) {
  // The planner may ask a function of the strategy before the client that it asks is there.
  if (!started_) return early_.push_back(std::move(envelope));
  const auto found = hosted_.find(envelope.to.index);
  if (envelope.to.kind != protocol::RoleKind::kClient || found == hosted_.end()) return;
  auto shared = std::make_shared<protocol::Envelope>(std::move(envelope));
  found->second.loop->post(
      [client = found->second.client.get(), shared] { client->receive(*shared); });
}

void AttachedEngine::on_control(const protocol::Control& control) {
  std::visit([this](const auto& one) { hear(one); }, control);
}

void AttachedEngine::hear(const protocol::TreeAnswered& answer) {
  const std::lock_guard lock(mutex_);
  if (asked_.erase(answer.question) == 0) return;  // answered before the node died
  answers_.emplace(answer.question, answer.refused ? Result<StepIndex>(*answer.refused)
                                                   : Result<StepIndex>(answer.first_step));
  changed_.notify_all();
}

void AttachedEngine::hear(const protocol::FedBack& fed_back) {
  if (seats_) seats_->fed_back(fed_back.feedback);
}

// Told again to those that attach, and by loaders that were started again.
void AttachedEngine::hear(const protocol::RowNoted& note) {
  if (!noted_.insert(note.id).second) return;
  note_row({note.id, note.row, note.reason, note.late});
}

void AttachedEngine::hear(const protocol::StatusTold& told) {
  Result<NodeStatus> status = decode_node_status(told.status);
  const std::lock_guard lock(mutex_);
  if (status.ok()) node_status_ = std::move(*status);
  ++statuses_;
  changed_.notify_all();
}

void AttachedEngine::hear(const protocol::Welcome& welcome) {
  if (welcomed_once_) return served_again(welcome);
  welcomed_once_ = true;
  losses_.served();
  node_missing_ = false;
  run_ = welcome.run;
  term_ = welcome.term;
  // Where another host plans, the node of this one hands on what is for the planner.
  protocol::Roster roster;
  roster.processes.push_back({"node", 1, {protocol::planner_address()}});
  for (const protocol::ConstructorPlace& place : welcome.constructors) {
    known_[place.process] = place.generation;
    roster.processes.push_back(
        {place.process, place.generation, {protocol::constructor_address(place.bucket)}});
  }
  carrier_->set_roster(roster);
  Result<std::shared_ptr<const model::ViewTable>> views =
      protocol::decode_views(welcome.view_table);
  if (!views.ok()) return fail(views.status());
  carrier_->know({{*views}, static_cast<uint32_t>(welcome.source_names.size())});
  const std::lock_guard lock(mutex_);
  welcome_ = welcome;
  welcomed_ = true;
  changed_.notify_all();
}

// Steps from the tree's first on are asked for where its constructors are.
void AttachedEngine::hear(const protocol::TreeTold& tree) {
  {
    const std::lock_guard lock(mutex_);
    if (!trees_.emplace(tree.version, tree).second) {  // a node that comes again tells it again
      if (started_) carrier_->send_control("node", protocol::TreeTaken{tree.version});
      return;
    }
  }
  note_tree(tree.version, {tree.axes, tree.ranks});
  if (started_) take_tree(tree);
}

void AttachedEngine::take_tree(const protocol::TreeTold& tree) {
  Result<std::shared_ptr<const model::ViewTable>> views = protocol::decode_views(tree.view_table);
  if (!views.ok()) return fail(views.status());
  for (const Rank rank : request_.ranks) {
    const model::ClientView& view = (*views)->by_rank.at(rank);
    std::optional<protocol::Address> constructor;
    if (view.present()) constructor = protocol::constructor_address(view.bucket, tree.version);
    if (constructor) call_home_of(*constructor);
    if (tree.again || !constructor) {
      restart(rank, tree, constructor);
    } else {
      hosted_.at(rank).loop->post([client = hosted_.at(rank).client.get(), first = tree.first_step,
                                   at = *constructor] { client->reseat(first, at); });
    }
  }
  carrier_->send_control("node", protocol::TreeTaken{tree.version});
}

void AttachedEngine::call_home_of(const protocol::Address& role) {
  for (const protocol::ProcessRoles& process : roster_.processes) {
    const auto& roles = process.roles;
    if (std::find(roles.begin(), roles.end(), role) == roles.end()) continue;
    known_.emplace(process.name, process.generation);
    endpoint_->call(process.name, process.host == welcome_.host ? "" : process.wire);
  }
}

// Steps that this rank may have read are placed again, perhaps without it.
void AttachedEngine::restart(Rank rank, const protocol::TreeTold& tree,
                             const std::optional<protocol::Address>& constructor) {
  std::shared_ptr<const protocol::ResumeState> from;
  if (!tree.restart.empty()) {
    Result<model::StreamState> state = protocol::decode_stream_state(tree.restart);
    if (!state.ok()) return fail(state.status());
    protocol::ResumeState before;
    before.state = std::move(*state);
    before.content_chain = tree.content_chain;
    before.plan_chain = tree.plan_chain;
    from = std::make_shared<const protocol::ResumeState>(std::move(before));
  }
  const client::Restarted restarted{tree.version, tree.first_step, constructor};
  hosted_.at(rank).loop->post(
      [this, rank, restarted, from, client = hosted_.at(rank).client.get()] {
        if (!client->restart(restarted) || !from) return;
        seats_->restart(rank, restarted.tree, *from);
        if (restarted.constructor) {
          reach_->join(rank, restarted.step);
        } else {
          reach_->leave(rank);
        }
      });
}

void AttachedEngine::hear(const protocol::Roster& roster) {
  carrier_->set_roster(roster);
  roster_ = roster;
  if (roster.term > term_ && started_) {
    term_ = roster.term;
    tell_clients({protocol::planner_address(), term_});
  }
  for (const protocol::ProcessRoles& process : roster.processes) {
    const auto known = known_.find(process.name);
    if (known == known_.end() || process.generation <= known->second) continue;
    known->second = process.generation;
    for (const protocol::Address& role : process.roles) tell_clients({role, process.generation});
    endpoint_->call(process.name, process.host == welcome_.host ? "" : process.wire);
  }
}

// In the name of the planner that there is: what an earlier one says is refused.
void AttachedEngine::tell_clients(const protocol::PeerRestarted& restarted) {
  model::Versions versions = welcome_.versions;
  versions.generation = term_;
  for (const Rank rank : request_.ranks) {
    deliver({versions, protocol::planner_address(), protocol::client_address(rank), restarted});
  }
}

// At the stream's end, good or bad, all ranks get there.
void AttachedEngine::hand_over(Rank rank, client::ReadyStep ready) {
  const bool end = ready.failure || ready.plan->last;
  reach_->set_ready(rank, end ? RankReach::kAll : ready.step + 1);
  seats_->deliver(rank, std::move(ready));
}

void AttachedEngine::fail(const Status& status) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = status;
    changed_.notify_all();
  }
  if (seats_) seats_->close(status);
}

// --- What the trainer asks ----------------------------------------------------------------------

// A rank that holds more than its share of the pool gets copies of its own, up to a limit (law 14).
Result<model::MicrobatchPtr> AttachedEngine::give_out(model::MicrobatchPtr batch) {
  const uint64_t bytes = payload_bytes(*batch);
  if (bytes == 0) return batch;
  const bool copy = held_->shared + bytes > welcome_.hold_limit_bytes && held_->shared > 0;
  if (copy && held_->copied + bytes > welcome_.copy_limit_bytes) {
    return Status(Code::kResource,
                  "batches are held beyond the limit: " + std::to_string(held_->shared) +
                      " shared and " + std::to_string(held_->copied) +
                      " copied bytes; drop batches you no longer need or raise "
                      "runtime.private_copy_limit");
  }
  std::atomic<uint64_t>& count = copy ? held_->copied : held_->shared;
  count += bytes;
  std::shared_ptr<const void> counted(
      &count, [held = held_, &count, bytes](const void*) { count -= bytes; });
  return copy ? private_batch(*batch, counted) : counted_batch(*batch, counted);
}

Result<StepIndex> AttachedEngine::rebuild(const planner::TreeWish& wish) {
  if (!process_.here()) {
    return Status(Code::kCancelled, "this loader was started in another process");
  }
  std::unique_lock lock(mutex_);
  is_held(mutex_);
  const uint64_t question = ++questions_;
  const protocol::TreeAsked& asked =
      asked_[question] = {question, wish.mesh.axes(), wish.step, wish.ranks};
  carrier_->send_control("node", asked);
  const auto answered = [&]() OVERLORD_REQUIRES(mutex_) {
    return answers_.contains(question) || !failure_.ok() || closed_;
  };
  const std::chrono::milliseconds patience(kTreeMs + request_.recovery_ms);
  while (!changed_.wait_for(lock, patience, answered)) {
    lock.unlock();
    const bool waits = planner_waits_for_disk();
    lock.lock();
    if (!waits) break;
  }
  asked_.erase(question);
  const auto answer = answers_.extract(question);
  if (answer) return answer.mapped();
  if (!failure_.ok()) return failure_;
  if (closed_) return Status(Code::kCancelled, "the engine was closed");
  return Status(Code::kDeadline, "mesh: not every process of the job is ready for another one");
}

// The node has told of a row before anything was served in its place, but on another link: its
// answer to a question is behind all that it had told.
Status AttachedEngine::late_rows_over_budget(const model::StreamState& at_end) {
  OVERLORD_RETURN_IF_ERROR(node_status(kAnswerMs + request_.recovery_ms).status());
  std::vector<BadRowLimit> limits;
  for (size_t s = 0; s < welcome_.source_names.size(); ++s) {
    limits.push_back({welcome_.source_names[s], welcome_.bad_rows_allowed[s]});
  }
  return node::late_rows_over_budget(quarantine(), limits, at_end);
}

Result<NodeStatus> AttachedEngine::node_status(int64_t timeout_ms) {
  std::unique_lock lock(mutex_);
  is_held(mutex_);
  const uint64_t before = statuses_;
  ++status_waits_;  // asked again where another node comes meanwhile
  carrier_->send_control("node", protocol::StatusAsked{});
  changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [&]() OVERLORD_REQUIRES(mutex_) {
    return statuses_ > before || !failure_.ok() || closed_;
  });
  --status_waits_;
  if (statuses_ > before) return node_status_;
  if (!failure_.ok()) return failure_;
  return Status(Code::kDeadline, "the node does not answer");
}

bool AttachedEngine::planner_waits_for_disk() {
  const Result<NodeStatus> status = node_status(kStatusMs);
  return status.ok() && status->engine.planner.journal.waits_for_space;
}

void AttachedEngine::add_clients(EngineStatus* out) {
  for (auto& [rank, hosted] : hosted_) {
    const client::ClientProbe& probe = hosted.client->probe();
    out->clients.push_back({rank, read_counts(probe), seats_->steps_waiting(rank)});
  }
}

EngineStatus AttachedEngine::status() {
  Result<NodeStatus> node = node_status(kStatusMs);
  EngineStatus out;
  if (node.ok()) out = std::move(node->engine);
  std::erase_if(out.clients, [this](const ClientStatus& client) {
    return hosted_.contains(client.rank);  // ours are newer here
  });
  add_clients(&out);
  std::sort(out.clients.begin(), out.clients.end(),
            [](const ClientStatus& a, const ClientStatus& b) { return a.rank < b.rank; });
  return out;
}

void AttachedEngine::close() {
  if (!process_.here()) return;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    closed_ = true;
    changed_.notify_all();
  }
  if (seats_) seats_->close(Status(Code::kCancelled, "the engine was closed"));
  for (const Rank rank : request_.ranks) {
    if (reach_) reach_->leave(rank);
  }
  // Others still read what role processes have: the last one clears up.
  const bool last = !reach_ || !reach_->others();
  const bool alone = last && node_missing_ && !carrier_->connected("node");
  if (carrier_) carrier_->send_control("node", protocol::Detach{});
  if (endpoint_) endpoint_->close();
  for (auto& [rank, hosted] : hosted_) hosted.loop->stop();
  starter_->stop();
  // The next node, which the ranks that are left call, ends what the dead one kept if there are
  // none.
  if (alone && (request_.recovery_ms == 0 || !start_node_again(request_.directory).ok())) {
    remove_leftovers(request_.directory);
  }
}

}  // namespace overlord::node
