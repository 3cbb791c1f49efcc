#include "overlord/sim/processes.h"

#include <algorithm>
#include <set>

#include "overlord/base/check.h"
#include "overlord/plan/place_tree.h"

namespace overlord::sim {
namespace {

using protocol::Address;
using protocol::Envelope;
using protocol::RoleKind;

constexpr int64_t kNoticeNs = 100'000;
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

bool mortal(const host::HostedRoles& roles) {
  return !roles.planner && roles.clients && roles.clients->empty();
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
  void operator()(protocol::LateBad& message) const { message.id.position += 1'000'000; }
  void operator()(protocol::Fetch& message) const { message.step += 1000; }
  template <typename Other>
  void operator()(Other&) const {}
};

}  // namespace

Processes::Processes(World& world, SlowTransport& transport, host::HostStart start,
                     host::HostSeams seams, const Layout& layout)
    : world_(world), start_(std::move(start)), seams_(std::move(seams)), storm_(layout.storm) {
  std::vector<host::HostedRoles> hosted = {host::HostedRoles{}};
  if (layout.split) {
    hosted = split_up(start_, layout.loaders_together);
    start_.tree_changed = [this](const planner::TreeChanged& change, std::function<void()> ready) {
      change_tree(change, std::move(ready));
    };
    start_.retired = [this](const Address& constructor) {
      world_.post_after(world_.dice().delay_ns(kNoticeNs),
                        [this, constructor] { retire(constructor); });
    };
  }
  for (host::HostedRoles& roles : hosted) {
    Process& process = processes_.emplace_back();
    process.constructs = roles.constructors && !roles.constructors->empty();
    process.roles = std::move(roles);
  }
  transport.connect(
      [this](Envelope envelope, int64_t sent_ns) { arrive(std::move(envelope), sent_ns, false); });
  for (size_t i = 0; i < processes_.size(); ++i) begin(i);
}

Processes::~Processes() {
  for (Process& process : processes_) {
    if (process.host) process.host->stop();
  }
}

// One process of all roles makes constructors of later trees by itself.
size_t Processes::home(const Address& role) const {
  return processes_.size() == 1 ? 0 : where_.at(role);
}

host::RoleHost& Processes::host_of(const Address& role) {
  Process& process = processes_[home(role)];
  OVERLORD_CHECK(process.alive, "asked for the host of a dead role");
  return *process.host;
}

void Processes::begin(size_t index) {
  Process& process = processes_[index];
  host::HostStart start = start_;
  start.hosted = process.roles;
  for (const auto& [address, where] : where_) {
    if (processes_[where].generation > 1) start.generations[address] = processes_[where].generation;
  }
  process.reach.clear();
  process.told.clear();
  for (const Process& other : processes_) {
    process.reach.push_back({other.generation, world_.now_ns()});
    process.told.push_back(other.generation);
  }
  process.host = std::make_unique<host::RoleHost>(std::move(start), seams_);
  for (const Address& address : process.host->hosted()) where_[address] = index;
  process.alive = true;
  take_trees(index);
  process.host->start();
}

// --- Trees: what a node does with the processes of its host --------------------------------------

// Constructors of a later tree live in the processes that had those of the first.
void Processes::change_tree(const planner::TreeChanged& change, std::function<void()> ready) {
  trees_.push_back(change);
  std::vector<size_t> homes;
  for (size_t i = 0; i < processes_.size(); ++i) {
    if (processes_[i].constructs) homes.push_back(i);
  }
  std::set<uint32_t> buckets;
  for (const model::ClientView& view : change.tree.views->by_rank) buckets.insert(view.bucket);
  size_t next = 0;
  for (const uint32_t bucket : buckets) {
    const Address address = protocol::constructor_address(bucket, change.tree.version);
    const size_t home = homes[next++ % homes.size()];
    processes_[home].later.push_back(address);
    where_[address] = home;
  }
  tree_ready_ = std::move(ready);
  clients_told_ = false;
  offer_tree(false);
}

void Processes::offer_tree(bool to_clients) {
  for (size_t i = 0; i < processes_.size(); ++i) {
    if (processes_[i].roles.planner || mortal(processes_[i].roles) == to_clients) continue;
    world_.post_after(world_.dice().delay_ns(kNoticeNs), [this, i] {
      if (processes_[i].alive) take_trees(i);  // a dead one takes them when it starts
    });
  }
}

void Processes::take_trees(size_t index) {
  Process& process = processes_[index];
  for (const planner::TreeChanged& change : trees_) {
    std::vector<uint32_t> buckets;
    for (const Address& address : process.later) {
      if (protocol::tree_of(address) == change.tree.version) buckets.push_back(address.index);
    }
    process.host->take_tree(change, buckets, process.generation);
    process.tree = change.tree.version;
  }
  tree_taken();
}

// Clients come last: they ask at once.
void Processes::tree_taken() {
  if (!tree_ready_) return;
  const uint32_t version = trees_.back().tree.version;
  for (const Process& process : processes_) {
    if (process.roles.planner || (!mortal(process.roles) && !clients_told_)) continue;
    if (!process.alive || process.tree < version) return;
  }
  if (!clients_told_) {
    clients_told_ = true;
    return offer_tree(true);
  }
  const std::function<void()> ready = std::move(tree_ready_);
  tree_ready_ = nullptr;
  ready();
}

void Processes::retire(const Address& constructor) {
  Process& process = processes_[home(constructor)];
  std::erase(process.later, constructor);
  if (protocol::tree_of(constructor) == 1)
    std::erase(*process.roles.constructors, constructor.index);
  if (process.alive) process.host->retire(constructor);
  ++seen_.retired;
}

// --- Life and death ------------------------------------------------------------------------------

void Processes::kill(size_t index) {
  Process& process = processes_[index];
  process.host->stop();
  dead_.push_back(std::move(process.host));
  process.alive = false;
  ++seen_.kills;
  world_.post_after(world_.dice().delay_ns(storm_.down_ns), [this, index] { restart(index); });
}

void Processes::restart(size_t index) {
  const uint32_t generation = ++processes_[index].generation;
  begin(index);
  for (size_t other = 0; other < processes_.size(); ++other) {
    if (other == index) continue;
    const uint32_t incarnation = processes_[other].generation;
    world_.post_after(world_.dice().delay_ns(kNoticeNs), [=, this] {
      // One that died meanwhile learns it when it starts.
      const Process& process = processes_[other];
      if (process.alive && process.generation == incarnation) tell(other, index, generation);
    });
  }
}

void Processes::reach(size_t index, size_t other, uint32_t generation) {
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
      if (processes_[home(envelope.to)].alive) hand_over(envelope);
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
  const bool orphan = !from.alive || envelope.versions.generation < from.generation;
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
  if (seen_.kills >= storm_.kills || world_.dice().below(storm_.rarity) != 0) return;
  const size_t victim = home(world_.dice().below(2) == 0 ? envelope.from : envelope.to);
  if (processes_[victim].alive && mortal(processes_[victim].roles)) kill(victim);
}

void Processes::arrive(Envelope envelope, int64_t sent_ns, bool delayed) {
  maybe_kill(envelope);
  if (lost_with_the_dead(envelope, sent_ns, delayed)) return;
  Process& to = processes_[home(envelope.to)];
  if (!to.alive || (!certain(envelope, sent_ns) && world_.dice().below(2) == 0)) {
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
