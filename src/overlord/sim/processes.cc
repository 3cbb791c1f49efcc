#include "overlord/sim/processes.h"

#include <algorithm>
#include <limits>
#include <set>

#include "overlord/base/check.h"
#include "overlord/plan/place/place_tree.h"
#include "overlord/roles/keeper/rosters.h"

namespace overlord::sim {
namespace {

using protocol::Address;
using protocol::Envelope;
using protocol::RoleKind;

constexpr int64_t kLateNs = 1'000'000;
constexpr size_t kRemembered = 8;

host::HostedRoles nothing() {
  host::HostedRoles roles;
  roles.planner = false;
  roles.loaders.emplace();
  roles.constructors.emplace();
  roles.clients.emplace();
  return roles;
}

// Planner, every client and every constructor alone; loaders in groups.
std::vector<host::HostedRoles> split_up(const host::HostStart& start, uint32_t loaders_together) {
  std::vector<host::HostedRoles> all = {nothing()};
  all.front().planner = true;
  const auto views = plan::make_views(start.job->mesh, start.job->delivery, 1);
  std::set<uint32_t> buckets;
  for (const Rank rank : start.ranks) {
    all.push_back(nothing());
    all.back().clients->push_back(rank);
    if (!buckets.insert(views->by_rank[rank].bucket).second) continue;
    all.push_back(nothing());
    all.back().constructors->push_back(views->by_rank[rank].bucket);
  }
  uint32_t room = 0;
  for (SourceIndex s = 0; s < start.job->sources.size(); ++s) {
    for (uint32_t slot = 0; slot < start.job->spec.sources[s].loaders; ++slot) {
      if (room == 0) {
        all.push_back(nothing());
        room = loaders_together;
      }
      all.back().loaders->push_back(protocol::loader_address(s, slot));
      --room;
    }
  }
  return all;
}

std::vector<Address> addresses(const host::HostedRoles& roles) {
  std::vector<Address> out;
  if (roles.planner) out.push_back(protocol::planner_address());
  for (const Address& loader : *roles.loaders) out.push_back(loader);
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
      storm_(layout.storm),
      planner_storm_(layout.planner) {
  transport.connect(
      [this](Envelope envelope, int64_t sent_ns) { arrive(std::move(envelope), sent_ns, false); });
  if (!layout.split) {
    processes_.emplace_back().name = "all";
    begin_planner({});
    return;
  }
  for (host::HostedRoles& roles : split_up(start_, layout.loaders_together)) {
    const std::vector<Address> all = addresses(roles);
    for (const Address& address : all) where_[address] = processes_.size();
    Process& process = processes_.emplace_back();
    process.name = name_of(all.front());
    process.keeps = !roles.planner && roles.clients->empty();
    by_name_[process.name] = processes_.size() - 1;
    process.roles = std::move(roles);
  }
  begin_planner(processes_[0].roles);
  keep(layout);
}

void Processes::keep(const Layout& layout) {
  keeper::KeeperJob job;
  job.ranks = job.local = start_.ranks;
  job.supervision.restarts_allowed = std::numeric_limits<uint32_t>::max();
  job.views = plan::make_views(start_.job->mesh, start_.job->delivery, 1);
  for (const Process& process : processes_) {
    if (process.keeps) job.groups.push_back({process.name, 1, addresses(process.roles)});
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
  return out;
}

// One process of all roles makes constructors of later trees by itself.
size_t Processes::home(const Address& role) const {
  return processes_.size() == 1 ? 0 : where_.at(role);
}

host::RoleHost& Processes::host_of(const Address& role) {
  Process& process = processes_[home(role)];
  OVERLORD_CHECK(process.host != nullptr, "asked for the host of a dead role");
  return *process.host;
}

void Processes::begin(size_t index, const host::HostedRoles& roles,
                      const std::map<std::string, uint32_t>& generations) {
  Process& process = processes_[index];
  host::HostStart start = start_;
  host::HostSeams seams = seams_;
  start.hosted = roles;
  if (index == 0) {
    seams.journal = planners_.back().journal.get();
    seams.executor = planners_.back().executor.get();
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
  process.reach.clear();
  process.told.clear();
  for (const Process& other : processes_) {
    const auto known = generations.find(other.name);
    uint32_t generation = known == generations.end() ? 1 : known->second;
    if (&other == &processes_[0]) generation = other.generation;  // a roster tells the term
    process.reach.push_back({generation, world_.now_ns()});
    process.told.push_back(generation);
  }
  for (const auto& [address, where] : where_) {
    if (process.told[where] > 1) start.generations[address] = process.told[where];
  }
  process.host = std::make_unique<host::RoleHost>(std::move(start), std::move(seams));
  if (process.keeps) take_trees(index);
  process.host->start();
  if (!process.keeps) take_trees(index);
  for (Envelope& envelope : std::exchange(process.early, {})) hand_over(std::move(envelope));
}

// --- What processes, trainers and the planner do with what a keeper tells them -------------------

void Processes::hear(const std::string& peer, const protocol::Control& control) {
  const size_t index = named(peer);
  if (const auto* roster = std::get_if<protocol::Roster>(&control)) on_roster(index, *roster);
  if (const auto* welcome = std::get_if<protocol::Welcome>(&control)) on_welcome(index, *welcome);
  if (const auto* tree = std::get_if<protocol::TreeTold>(&control)) {
    // In order: one may have been told to the generation before, and come late.
    std::vector<uint32_t>& trees = processes_[index].trees;
    if (std::find(trees.begin(), trees.end(), tree->version) == trees.end()) {
      trees.insert(std::upper_bound(trees.begin(), trees.end(), tree->version), tree->version);
    }
    if (processes_[index].host) take_trees(index);
  }
}

const std::vector<Address>& Processes::own_roles(const Process& process) const {
  static const std::vector<Address> none;
  for (const protocol::ProcessRoles& one : process.roster.processes) {
    if (one.name == process.name) return one.roles;
  }
  return none;
}

void Processes::on_roster(size_t index, const protocol::Roster& roster) {
  Process& process = processes_[index];
  std::map<std::string, uint32_t> generations;
  for (const protocol::ProcessRoles& one : roster.processes) generations[one.name] = one.generation;
  // One for the generation before, or for a trainer that has not been welcomed.
  if (process.keeps && generations[process.name] != process.generation) return;
  if (index == 0) process.roster = roster;  // also for the next planner
  if (!process.keeps && !process.host) return;
  const bool tree_waits =
      !process.trees.empty() && !keeper::names_tree(process.roster, process.trees.back());
  process.roster = roster;
  if (!process.host) {
    if (!process.opened) return;
    host::HostedRoles roles = nothing();
    for (const Address& role : own_roles(process)) {
      if (role.kind == RoleKind::kLoader) roles.loaders->push_back(role);
      if (role.kind != RoleKind::kConstructor || protocol::tree_of(role) != 1) continue;
      roles.constructors->push_back(role.index);
    }
    return begin(index, roles, generations);
  }
  for (const auto& [name, generation] : generations) {
    if (generation > process.told[named(name)]) tell(index, named(name), generation);
  }
  if (!process.keeps) return;
  const std::vector<Address>& own = own_roles(process);
  for (const auto& [address, probe] : process.host->constructors()) {
    if (std::find(own.begin(), own.end(), address) != own.end()) continue;
    process.host->retire(address);
    ++seen_.retired;
  }
  if (tree_waits) take_trees(index);
}

void Processes::on_welcome(size_t index, const protocol::Welcome& welcome) {
  Process& process = processes_[index];
  if (process.host) return;  // by a keeper before
  std::map<std::string, uint32_t> generations;
  for (const protocol::ConstructorPlace& place : welcome.constructors) {
    generations[place.process] = place.generation;
  }
  begin(index, process.roles, generations);
}

void Processes::take_trees(size_t index) {
  Process& process = processes_[index];
  for (const uint32_t version : process.trees) {
    const auto change = std::find_if(trees_.begin(), trees_.end(),
                                     [&](const auto& one) { return one.tree.version == version; });
    std::vector<uint32_t> buckets;
    for (const Address& role : own_roles(process)) {
      if (role.kind != RoleKind::kConstructor) continue;
      if (protocol::tree_of(role) == version) buckets.push_back(role.index);
    }
    process.host->take_tree(*change, buckets, process.generation);
  }
  if (process.trees.empty()) return;
  if (process.keeps && !keeper::names_tree(process.roster, process.trees.back())) return;
  keeping_->say(process.name,
                keeper::Heard{process.name, protocol::TreeTaken{process.trees.back()}});
}

// Constructors of a later tree live in the processes that had those of the first.
void Processes::change_tree(const planner::TreeChanged& change, std::function<void()> ready) {
  std::vector<size_t> homes;
  for (size_t i = 0; i < processes_.size(); ++i) {
    if (!processes_[i].roles.constructors->empty()) homes.push_back(i);
  }
  std::set<uint32_t> buckets;
  for (const model::ClientView& view : change.tree.views->by_rank) buckets.insert(view.bucket);
  keeper::TreePlaced placed{{change.tree.version, change.first_step, {}, {}}, {}};
  size_t next = 0;
  for (const uint32_t bucket : buckets) {
    const Address address = protocol::constructor_address(bucket, change.tree.version);
    const size_t home = homes[next++ % homes.size()];
    where_[address] = home;
    placed.groups.push_back({processes_[home].name, 1, {address}});
  }
  tree_ready_ = std::move(ready);
  if (trees_.empty() || trees_.back().tree.version < change.tree.version) {
    trees_.push_back(change);
    placed_trees_.push_back(placed);
  }
  keeping_->say("planner", keeper::TreeChanged{placed});
}

void Processes::tree_ready(uint32_t version) {
  if (!tree_ready_ || trees_.back().tree.version != version) return;
  std::exchange(tree_ready_, nullptr)();
}

void Processes::retire(const Address& constructor) {
  const bool told = std::find(retired_.begin(), retired_.end(), constructor) != retired_.end();
  if (!told) retired_.push_back(constructor);
  keeping_->say("planner", keeper::ConstructorRetired{constructor});
}

keeper::Begun Processes::begun() const {
  keeper::Begun out;
  out.trees = placed_trees_;
  out.retired = retired_;
  return out;
}

void Processes::call(size_t index) {
  const Process& process = processes_[index];
  if (process.opened) {
    protocol::Hello hello;
    hello.name = process.name;
    hello.generation = process.generation;
    keeping_->say(process.name, keeper::Connected{hello});
  } else if (!process.roles.planner && !process.keeps) {
    protocol::Attach attach;
    attach.attempt = 1;
    attach.ranks = *process.roles.clients;
    keeping_->say(process.name, keeper::Heard{process.name, attach});
  }
}

void Processes::call_again() {
  for (size_t i = 0; i < processes_.size(); ++i) call(i);
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

void Processes::kill(size_t index) {
  Process& process = processes_[index];
  process.host->stop();
  dead_.push_back(std::move(process.host));
  process.host.reset();
  process.dead = true;
  process.opened = false;
  process.early.clear();
  ++seen_.kills;
  keeping_->say(process.name, keeper::Lost{process.name});
  keeping_->kill_group(process.name);
}

// Killed by the keeper, perhaps before it had roles.
void Processes::over(const std::string& group) {
  const size_t index = named(group);
  Process& process = processes_[index];
  if (process.host) return kill(index);
  process.dead = true;
  process.opened = false;
  process.early.clear();
}

void Processes::reach(size_t index, size_t other, uint32_t generation) {
  if (index == other) return;  // a role that came again within its process
  Reach& reach = processes_[index].reach[other];
  if (reach.generation < generation) reach = {generation, world_.now_ns()};
}

void Processes::tell(size_t index, size_t restarted, uint32_t generation) {
  Process& process = processes_[index];
  reach(index, restarted, generation);
  process.told[restarted] = std::max(process.told[restarted], generation);
  for (const auto& [address, where] : where_) {
    if (where == restarted) process.host->peer_restarted(address, generation);
  }
  haunt(index, restarted);
}

// Everything the dead one said of late comes once more.
void Processes::haunt(size_t index, size_t dead) {
  std::vector<Envelope> again;
  for (const Envelope& envelope : processes_[dead].said) {
    if (envelope.versions.generation >= processes_[index].told[dead]) continue;
    if (home(envelope.to) != index) continue;
    again.push_back(envelope);
  }
  if (!again.empty() && world_.dice().below(2) == 0) {
    again.push_back(again.back());
    again.back().message = protocol::StreamFailed{0, Status(Code::kInternal, "from the dead")};
  }
  for (Envelope& envelope : again) {
    world_.post_after(world_.dice().delay_ns(kLateNs), [this, envelope = std::move(envelope)] {
      if (processes_[home(envelope.to)].host) hand_over(envelope);
    });
  }
}

// May what was sent then be lost because the receiver died? Not if the sender reached the
// one who is there now.
bool Processes::certain(const Envelope& envelope, int64_t sent_ns) const {
  const size_t to = home(envelope.to);
  const Reach& reach = processes_[home(envelope.from)].reach[to];
  return reach.generation == processes_[to].generation && sent_ns >= reach.since_ns;
}

// What a dead process has sent is lost, late, or just arrives.
bool Processes::lost_with_the_dead(const Envelope& envelope, int64_t sent_ns, bool delayed) {
  const Process& from = processes_[home(envelope.from)];
  const bool orphan = !from.host || envelope.versions.generation < from.generation;
  if (!orphan || delayed) return false;
  const uint64_t fate = world_.dice().below(3);
  if (fate == 0) ++seen_.lost;
  if (fate == 1) {
    ++seen_.late;
    const int64_t when = world_.now_ns() + world_.dice().delay_ns(kLateNs);
    world_.at(when, [this, envelope, sent_ns] { arrive(envelope, sent_ns, true); });
  }
  return fate < 2;
}

void Processes::maybe_kill(const Envelope& envelope) {
  if (envelope.from.kind == RoleKind::kPlanner || envelope.to.kind == RoleKind::kPlanner) {
    maybe_lose_planner();
  }
  if (seen_.kills >= storm_.kills || world_.dice().below(storm_.rarity) != 0) return;
  const size_t victim = home(world_.dice().below(2) == 0 ? envelope.from : envelope.to);
  if (processes_[victim].host && processes_[victim].keeps) kill(victim);
}

void Processes::arrive(Envelope envelope, int64_t sent_ns, bool delayed) {
  maybe_kill(envelope);
  if (lost_with_the_dead(envelope, sent_ns, delayed)) return;
  Process& to = processes_[home(envelope.to)];
  const bool sure = certain(envelope, sent_ns);
  if (!to.host && !to.dead && sure) return to.early.push_back(std::move(envelope));
  if (!to.host || (!sure && world_.dice().below(2) == 0)) {
    ++seen_.lost;
    return;
  }
  std::deque<Envelope>& said = processes_[home(envelope.from)].said;
  if (storm_.kills > 0) {
    said.push_back(envelope);
    if (said.size() > kRemembered) said.pop_front();
  }
  hand_over(envelope);
  maybe_kill(envelope);
}

void Processes::hand_over(Envelope envelope) {
  const size_t from = home(envelope.from);
  Process& to = processes_[home(envelope.to)];
  if (from == 0 && planner_storm_.unfenced_roles) {
    envelope.versions.generation = processes_[0].generation;
  }
  reach(home(envelope.to), from, envelope.versions.generation);
  if (to.told[from] > envelope.versions.generation) {
    ++seen_.lies;
    std::visit(Lie{}, envelope.message);
  } else {
    observe(envelope);
  }
  to.host->deliver(std::move(envelope));
}

void Processes::observe(const Envelope& envelope) {
  if (const auto* posted = std::get_if<protocol::MetaPosted>(&envelope.message)) {
    const auto key = std::pair(posted->window->first.source, posted->sequence);
    const auto [known, fresh] = posted_.try_emplace(key, posted->window);
    seen_.reposts += fresh ? 0 : 1;
    seen_.unequal_reposts += equal(*known->second, *posted->window) ? 0 : 1;
  }
  const host::RoleHost& host = *processes_[home(envelope.to)].host;
  seen_.most_payload_bytes = std::max(seen_.most_payload_bytes, host.budget().used_bytes.load());
  if (envelope.to.kind == RoleKind::kPlanner) {
    seen_.most_plans_kept =
        std::max<uint64_t>(seen_.most_plans_kept, host.planner_state().unacknowledged().size());
  }
  for (const auto& [address, probe] : host.constructors()) {
    seen_.most_steps_held = std::max(seen_.most_steps_held, probe->steps_held.load());
  }
}

}  // namespace overlord::sim
