#include "overlord/sim/processes.h"

#include <algorithm>
#include <limits>
#include <set>

#include "overlord/base/check.h"
#include "overlord/plan/place/place_tree.h"
#include "overlord/roles/keeper/process_placement.h"
#include "overlord/roles/keeper/rosters.h"
#include "overlord/roles/keeper/shadows.h"

namespace overlord::sim {

host::HostedRoles nothing() {
  host::HostedRoles roles;
  roles.planner = false;
  roles.loaders.emplace();
  roles.constructors.emplace();
  roles.clients.emplace();
  return roles;
}

namespace {

using protocol::Address;
using protocol::Envelope;
using protocol::RoleKind;

constexpr int64_t kLateNs = 1'000'000;
constexpr size_t kRemembered = 8;
constexpr int64_t kSilenceNs = 10'000'000;  // of a group, where somebody watches

// Planner, every client and every constructor alone.
std::vector<host::HostedRoles> split_up(const host::HostStart& start) {
  std::vector<host::HostedRoles> all = {nothing()};
  all.front().planner = true;
  const auto views =
      plan::make_views(start.job->mesh, start.job->delivery, 1, start.job->spec.strategy);
  std::set<uint32_t> buckets;
  for (const Rank rank : start.ranks) {
    all.push_back(nothing());
    all.back().clients->push_back(rank);
    if (!buckets.insert(views->by_rank[rank].bucket).second) continue;
    all.push_back(nothing());
    all.back().constructors->push_back(views->by_rank[rank].bucket);
  }
  return all;
}

// Loaders in groups, and their shadows.
std::vector<protocol::ProcessRoles> loader_groups(const host::HostStart& start, uint32_t together) {
  std::vector<protocol::ProcessRoles> out;
  const model::JobSpec& spec = start.job->spec;
  for (SourceIndex s = 0; s < spec.sources.size(); ++s) {
    for (uint32_t slot = 0; slot < spec.sources[s].slots(); ++slot) {
      if (out.empty() || out.back().roles.size() == together) out.emplace_back();
      out.back().roles.push_back(protocol::loader_address(s, slot));
    }
  }
  keeper::deal_shadows(spec, &out);
  return out;
}

std::vector<Address> addresses(const host::HostedRoles& roles) {
  std::vector<Address> out;
  if (roles.planner) out.push_back(protocol::planner_address());
  for (const uint32_t bucket : *roles.constructors) {
    out.push_back(protocol::constructor_address(bucket));
  }
  for (const Rank rank : *roles.clients) out.push_back(protocol::client_address(rank));
  return out;
}

std::string name_of(const Address& first) {
  const std::string number = std::to_string(first.index);
  switch (first.kind) {
    case RoleKind::kPlanner:
      return "planner";
    case RoleKind::kLoader:
      return "loaders-" + number + "." + std::to_string(first.slot);
    case RoleKind::kConstructor:
      return "constructors-" + number;
    case RoleKind::kClient:
      return "rank-" + number;
  }
  return {};
}

bool equal(const model::MetaWindow& a, const model::MetaWindow& b) {
  if (a.first != b.first || a.tokens != b.tokens || a.span_ends != b.span_ends) return false;
  if (a.spans.size() != b.spans.size() || a.bad.size() != b.bad.size()) return false;
  for (size_t i = 0; i < a.bad.size(); ++i) {
    if (a.bad[i].index != b.bad[i].index || a.bad[i].reason != b.bad[i].reason) return false;
  }
  return true;
}

// Turns a message into one that does harm wherever it is believed.
struct Lie {
  void operator()(protocol::PayloadPtr& message) const {
    auto holes = std::make_shared<protocol::Payload>(*message);
    for (model::TokenSpan& span : holes->spans) span = {};
    message = std::move(holes);
  }
  void operator()(protocol::MetaPosted& message) const {
    auto window = std::make_shared<model::MetaWindow>(*message.window);
    for (uint32_t& tokens : window->tokens) tokens = 2;
    message.window = std::move(window);
  }
  void operator()(protocol::StepReady& message) const {
    for (model::MicrobatchPtr& batch : message.microbatches) {
      auto other = std::make_shared<model::Microbatch>(*batch);
      other->digest = chain(batch->digest, batch->digest);
      batch = std::move(other);
    }
  }
  void operator()(protocol::Acknowledged& message) const { message.acknowledged += 1000; }
  void operator()(protocol::MetaGrant& message) const {
    message.first_window += 100;
    message.window_limit += 1000;
  }
  void operator()(protocol::LateBad& message) const { message.id.position += 1'000'000; }
  void operator()(protocol::Fetch& message) const { message.step += 1000; }
  template <typename Other>
  void operator()(Other&) const {}
};

}  // namespace

Processes::Processes(World& world, SlowTransport& transport, JournalDisk& disk,
                     host::HostStart start, host::HostSeams seams, const Layout& layout)
    : world_(world),
      disk_(disk),
      start_(std::move(start)),
      seams_(std::move(seams)),
      weather_(layout),
      links_(world) {
  links_.closed = [this](size_t a, size_t b) { link_closed(a, b); };
  links_.healed = [this](size_t a, size_t b) { link_healed(a, b); };
  transport.connect([this](Envelope envelope, int64_t sent_ns,
                           size_t home) { arrive(std::move(envelope), sent_ns, home, false); },
                    [this](const Envelope& envelope) { return homes_of(envelope); });
  transport.on_sent = [this](const Envelope& envelope) { observe_sent(envelope); };
  if (!layout.split) {
    processes_.emplace_back().name = "all";
    begin_planner({});
    return;
  }
  for (host::HostedRoles& roles : split_up(start_)) {
    Process& process = settle({{}, 1, addresses(roles)});
    process.keeps = !roles.planner && roles.clients->empty();
    process.roles = std::move(roles);
  }
  for (protocol::ProcessRoles& group : loader_groups(start_, layout.loaders_together)) {
    Process& process = settle(std::move(group));
    process.keeps = true;
    process.roles = nothing();
  }
  begin_planner(processes_[0].roles);
  keep(layout);
  if (layout.keeper.watch_ns > 0) beat();
}

Processes::Process& Processes::settle(protocol::ProcessRoles group) {
  const size_t index = processes_.size();
  for (const Address& address : group.roles) where_[address] = index;
  group.name = group.roles.empty() ? "loaders-shadow-" + std::to_string(index)
                                   : name_of(group.roles.front());
  by_name_[group.name] = index;
  Process& process = processes_.emplace_back();
  process.name = group.name;
  process.group = std::move(group);
  return process;
}

void Processes::keep(const Layout& layout) {
  keeper::KeeperJob job;
  job.ranks = job.local = start_.ranks;
  job.supervision.restarts_allowed = std::numeric_limits<uint32_t>::max();
  job.supervision.silence_ns = kSilenceNs;
  job.supervision.start_ns = 10 * kSilenceNs;
  job.views =
      plan::make_views(start_.job->mesh, start_.job->delivery, 1, start_.job->spec.strategy);
  job.slot_millicores = plan::slot_millicores(start_.job->spec.sources);
  for (const Process& process : processes_) {
    if (process.keeps) job.groups.push_back(process.group);
  }
  Kept& kept = *this;
  keeping_ = std::make_unique<Keeping>(world_, std::move(job), layout.keeper, kept);
  keeping_->start();
}

Processes::~Processes() {
  for (Process& process : processes_) {
    if (process.host) process.host->stop();
  }
}

Sightings Processes::sightings() const {
  Sightings out = seen_;
  if (keeping_) out.keeper_kills = keeping_->kills();
  if (keeping_) out.placed_elsewhere = keeping_->placed_elsewhere();
  return out;
}

// One process of all roles makes constructors of later trees by itself.
size_t Processes::home(const Address& role) const {
  return processes_.size() == 1 ? 0 : where_.at(role);
}

Processes::Sender Processes::sender_of(const Envelope& envelope) const {
  const auto moved = senders_.find({envelope.from, envelope.versions.generation});
  if (moved != senders_.end()) return moved->second;
  return {home(envelope.from), envelope.versions.generation};
}

// As a carrier sends: to the active home, and what every home needs to those that stand by.
std::vector<size_t> Processes::homes_of(const Envelope& envelope) const {
  if (envelope.to.kind != RoleKind::kLoader || processes_.size() == 1) {
    // A planner that wakes too late knows constructors that nobody has placed for it.
    if (processes_.size() > 1 && !where_.contains(envelope.to)) return {};
    return {home(envelope.to)};
  }
  std::vector<size_t> active, standby;
  for (const auto& one : processes_[sender_of(envelope).process].roster.processes) {
    const auto has = [&](const std::vector<Address>& roles) {
      return std::find(roles.begin(), roles.end(), envelope.to) != roles.end();
    };
    if (has(one.roles)) active.push_back(named(one.name));
    if (has(one.standby)) standby.push_back(named(one.name));
  }
  OVERLORD_CHECK(active.size() <= 1, "a slot is active once");
  if (active.empty()) active.push_back(home(envelope.to));
  if (protocol::for_every_home(envelope.message)) {
    active.insert(active.end(), standby.begin(), standby.end());
  }
  return active;
}

host::RoleHost& Processes::host_of(const Address& role) {
  Process& process = processes_[home(role)];
  OVERLORD_CHECK(process.host != nullptr, "asked for the host of a dead role");
  return *process.host;
}

void Processes::begin(size_t index, const host::HostedRoles& roles, const protocol::Roster& known) {
  Process& process = processes_[index];
  host::HostStart start = start_;
  host::HostSeams seams = seams_;
  start.hosted = roles;
  process.life = &lives_.emplace_back(world_);
  seams.executor = &process.life->executor;
  seams.clock = &process.life->clock;
  if (process.state) start.state = *process.state;
  if (index == 0) {
    seams.journal = journals_.back().get();
    start.superseded = [this](const Status&) { ++seen_.stepped_down; };
    // A planner that wakes beside its successor has no keeper any more.
    const auto holds = [this, term = process.generation] { return term == disk_.term(); };
    if (processes_.size() > 1) {
      start.tree_changed = [this, holds](const planner::TreeChanged& change,
                                         std::function<void()> ready) {
        if (holds()) change_tree(change, std::move(ready));
      };
      start.retired = [this, holds](const Address& constructor) {
        if (holds()) retire(constructor);
      };
    }
  }
  process.restarts = {};
  process.restarts.take(known);
  process.reach.assign(processes_.size(), {1, world_.now_ns()});
  for (const protocol::ProcessRoles& one : known.processes) {
    process.reach[named(one.name)].generation = one.generation;
  }
  process.reach[0].generation = processes_[0].generation;  // a roster tells the term
  process.told.clear();
  process.terms.clear();
  for (const auto& [address, where] : where_) {
    if (process.reach[where].generation == 1) continue;
    process.told[address] = process.reach[where].generation;
  }
  for (const protocol::ProcessRoles& one : known.processes) {
    for (const Address& role : one.roles) process.told[role] = keeper::generation_of(one, role);
  }
  if (process.state) process.told[process.group.roles.front()] = process.generation;
  start.generations = process.told;
  process.host = std::make_unique<host::RoleHost>(std::move(start), std::move(seams));
  if (process.keeps) take_trees(index);
  process.host->start();
  if (!process.keeps) take_trees(index);
  for (Envelope& envelope : std::exchange(process.early, {})) hand_over(std::move(envelope), index);
}

// --- Life and death ------------------------------------------------------------------------------

void Processes::place(const std::string& group, uint32_t generation) {
  const size_t index = named(group);
  Process& process = processes_[index];
  const bool first = process.generation == 1 && !process.dead;
  if (!first && generation <= process.generation) ++seen_.repeated_generations;
  process.generation = generation;
  process.dead = false;
  process.roster = {};
  process.trees.clear();
  const int64_t takes_ns = first ? 0 : world_.dice().delay_ns(storm_.down_ns);
  world_.post_after(takes_ns, [this, index, generation] {
    Process& placed = processes_[index];
    if (placed.dead || placed.generation != generation) return;
    placed.opened = true;
    call(index);
  });
}

// Nothing of it is left but what it has said.
void Processes::bury(size_t index) {
  Process& process = processes_[index];
  if (process.host) dead_.push_back(std::move(process.host));
  process.host.reset();
  process.dead = true;
  process.opened = false;
  process.early.clear();
  process.frozen = false;
  process.held.clear();
  // The keeper lives on where the planner dies: what it said over a cut link must come to a head.
  if (index != 0) links_.forget(index);
}

void Processes::kill(size_t index) {
  Process& process = processes_[index];
  process.host->stop();
  bury(index);
  ++seen_.kills;
  world_.landed(Fault::kRoleDies);
  keeping_->say(process.name, keeper::Lost{process.name});
  keeping_->kill_group(process.name);
}

// Killed by the keeper, perhaps before it had roles.
void Processes::over(const std::string& group) {
  const size_t index = named(group);
  Process& process = processes_[index];
  if (process.host) return kill(index);
  bury(index);
}

void Processes::reach(size_t index, size_t other, uint32_t generation) {
  if (index == other) return;  // a role that came again within its process
  Reach& reach = processes_[index].reach[other];
  if (reach.generation < generation) reach = {generation, world_.now_ns()};
}

void Processes::tell(size_t index, const protocol::RoleGeneration& restarted) {
  Process& process = processes_[index];
  uint32_t& told = process.told[restarted.role];
  told = std::max(told, restarted.generation);
  process.host->peer_restarted(restarted.role, restarted.generation);
  haunt(index, restarted.role);
}

// Everything that it has said of late in an earlier generation comes once more.
void Processes::haunt(size_t index, const Address& role) {
  std::vector<Envelope> again;
  for (const Process& process : processes_) {
    for (const auto& [envelope, to] : process.said) {
      if (to != index || envelope.from != role) continue;
      if (envelope.versions.generation < processes_[index].told[role]) again.push_back(envelope);
    }
  }
  if (!again.empty() && world_.dice().below(2) == 0) {
    again.push_back(again.back());
    again.back().message = protocol::StreamFailed{0, Status(Code::kInternal, kFromTheDead)};
  }
  for (Envelope& envelope : again) {
    world_.post_after(world_.dice().delay_ns(kLateNs),
                      [this, index, envelope = std::move(envelope)] {
                        if (processes_[index].host) hand_over(envelope, index);
                      });
  }
}

// May what was sent then be lost because the receiver died? Not if the sender reached the
// one who is there now.
bool Processes::certain(const Envelope& envelope, int64_t sent_ns, size_t to) const {
  const Process& from = processes_[sender_of(envelope).process];
  if (from.reach.empty()) return true;
  const Reach& reach = from.reach[to];
  return reach.generation == processes_[to].generation && sent_ns >= reach.since_ns;
}

// What a dead process has sent is lost, late, or just arrives.
bool Processes::lost_with_the_dead(const Envelope& envelope, int64_t sent_ns, size_t to,
                                   bool delayed) {
  const Sender sender = sender_of(envelope);
  const Process& from = processes_[sender.process];
  const bool orphan = !from.host || sender.generation < from.generation;
  if (!orphan || delayed) return false;
  const uint64_t fate = world_.dice().below(3);
  if (fate == 0) ++seen_.lost;
  if (fate == 1) {
    ++seen_.late;
    const int64_t when = world_.now_ns() + world_.dice().delay_ns(kLateNs);
    world_.at(when, [this, envelope, sent_ns, to] { arrive(envelope, sent_ns, to, true); });
  }
  return fate < 2;
}

void Processes::maybe_kill(const Envelope& envelope, size_t to) {
  if (envelope.from.kind == RoleKind::kPlanner || envelope.to.kind == RoleKind::kPlanner) {
    maybe_lose_planner();
  }
  if (seen_.kills >= storm_.kills || world_.dice().below(storm_.rarity) != 0) return;
  const size_t victim = world_.dice().below(2) == 0 ? sender_of(envelope).process : to;
  if (processes_[victim].host && processes_[victim].keeps) kill(victim);
}

void Processes::arrive(Envelope envelope, int64_t sent_ns, size_t home, bool delayed) {
  if (envelope.versions.attempt != start_.attempt) {  // of trainers that are dead
    if (processes_[home].host) processes_[home].host->deliver(std::move(envelope));
    return;
  }
  const size_t from = sender_of(envelope).process;
  const auto later = [this, envelope, sent_ns, home, delayed] {
    arrive(envelope, sent_ns, home, delayed);
  };
  strike(envelope, home);
  if (from != home && links_.takes(from, home, sent_ns, later)) return;
  if (processes_[home].frozen) return processes_[home].held.push_back(later);
  maybe_kill(envelope, home);
  if (lost_with_the_dead(envelope, sent_ns, home, delayed)) return;
  Process& to = processes_[home];
  const bool sure = certain(envelope, sent_ns, home);
  if (!to.host && !to.dead && sure) return to.early.push_back(std::move(envelope));
  if (!to.host || (!sure && world_.dice().below(2) == 0)) {
    ++seen_.lost;
    if (home == 0 && asleep_ != nullptr) asleep_->deliver(envelope);  // read when it wakes
    return;
  }
  auto& said = processes_[sender_of(envelope).process].said;
  if (storm_.kills > 0) {
    said.emplace_back(envelope, home);
    if (said.size() > kRemembered) said.pop_front();
  }
  hand_over(envelope, home);
  maybe_kill(envelope, home);
}

// Has its receiver heard of a later generation of whoever says this?
bool Processes::of_the_dead(const Envelope& envelope, Process* to) const {
  const uint32_t generation = envelope.versions.generation;
  if (to->told[envelope.from] > generation) return true;
  if (envelope.from.kind != RoleKind::kPlanner) return false;
  uint32_t& heard = to->terms[envelope.to];
  heard = std::max(heard, generation);
  return heard > generation;
}

void Processes::hand_over(Envelope envelope, size_t home) {
  const Sender from = sender_of(envelope);
  Process& to = processes_[home];
  world_.trace(envelope.message.index() << 32 | from.process << 16 | home);
  reach(home, from.process, from.generation);
  if (of_the_dead(envelope, &to)) {
    ++seen_.lies;
    std::visit(Lie{}, envelope.message);
    if (from.process == 0 && seen_.lies % 4 == 0) {
      envelope.message = protocol::StreamFailed{0, Status(Code::kInternal, kFromTheDead)};
    }
  } else {
    observe(envelope, home);
  }
  if (weather_.mutant != Mutant::kNone && mutate(&envelope)) return;
  if (from.process != home) carry(&envelope);
  to.host->deliver(std::move(envelope));
}

void Processes::observe(const Envelope& envelope, size_t to) {
  if (const auto* posted = std::get_if<protocol::MetaPosted>(&envelope.message)) {
    const auto key = std::pair(posted->window->first.source, posted->sequence);
    const auto [known, fresh] = posted_.try_emplace(key, posted->window);
    seen_.reposts += fresh ? 0 : 1;
    seen_.unequal_reposts += equal(*known->second, *posted->window) ? 0 : 1;
  }
  const host::RoleHost& host = *processes_[to].host;
  seen_.most_payload_bytes = std::max(seen_.most_payload_bytes, host.budget().used_bytes.load());
  if (envelope.to.kind == RoleKind::kPlanner) {
    seen_.most_plans_kept =
        std::max<uint64_t>(seen_.most_plans_kept, host.planner_state().unacknowledged().size());
  }
  for (const auto& [address, probe] : host.constructors()) {
    seen_.most_steps_held = std::max(seen_.most_steps_held, probe->steps_held.load());
  }
}

void Processes::observe_sent(const Envelope& envelope) {
  if (const auto* told = std::get_if<protocol::PlanPublished>(&envelope.message)) {
    observe_plan(told->plan->step, told->plan->plan_hash);
  } else if (const auto* rows = std::get_if<protocol::RowsPlanned>(&envelope.message)) {
    observe_plan(rows->rows->step, rows->rows->plan_hash);
  }
}

void Processes::observe_plan(StepIndex step, const Digest& plan_hash) {
  ++seen_.published;
  if (!disk_.holds(step, plan_hash)) ++seen_.published_early;
  if (!slowest) return;
  const StepIndex behind = slowest();
  const StepIndex ahead = step + 1 > behind ? step + 1 - behind : 0;
  seen_.most_plans_ahead = std::max<uint64_t>(seen_.most_plans_ahead, ahead);
}

}  // namespace overlord::sim
