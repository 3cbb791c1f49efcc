#include "overlord/transport/carrier.h"

#include <fcntl.h>

#include <algorithm>

#include "overlord/base/bytes.h"
#include "overlord/transport/carrier_peer.h"

namespace overlord::transport {
namespace {

using protocol::Address;
using protocol::Control;
using protocol::Envelope;

constexpr size_t kWaitingMost = 1 << 16;  // envelopes for a process whose link is not up

}  // namespace

// What one peer can see of our pool. Used with the peer's mutex held.
class Carrier::Sender final : public protocol::RegionTable {
 public:
  Sender(Carrier& carrier, Peer& peer) : carrier_(carrier), peer_(peer) {}

  std::optional<protocol::MemoryRef> describe(const void* data, size_t size_bytes) override {
    const auto* bytes = static_cast<const char*>(data);
    const SharedSegment* segment = segment_of(bytes);
    if (segment == nullptr) {
      carrier_.counters_->inline_bytes += size_bytes;
      return std::nullopt;
    }
    leased_bytes += size_bytes;
    return protocol::MemoryRef{segment->id(), static_cast<uint64_t>(bytes - segment->data()),
                               size_bytes};
  }
  Result<protocol::ResolvedMemory> resolve(const protocol::MemoryRef&) override {
    return internal_error("a sender resolves nothing");
  }

  uint64_t leased_bytes = 0;

 private:
  // One that the peer has. Hundreds of documents of a message lie in a few segments, which stay as
  // long as the message holds them: the pool is asked for each once.
  const SharedSegment* segment_of(const char* data) {
    if (peer_.remote || !carrier_.options_.pool) return nullptr;
    for (const auto& known : known_) {
      if (data >= known->data() && data < known->data() + known->size_bytes()) return known.get();
    }
    const std::optional<SegmentRef> ref = carrier_.options_.pool->find(data);
    if (!ref || !announce(ref->segment)) return nullptr;
    known_.push_back(carrier_.options_.pool->segment(ref->segment));
    return known_.back().get();
  }

  bool announce(SegmentId id) {
    if (peer_.shared.contains(id)) return true;
    const std::shared_ptr<const SharedSegment> segment = carrier_.options_.pool->segment(id);
    if (!segment) return false;
    std::vector<runtime::Descriptor> descriptors;
    descriptors.emplace_back(fcntl(segment->descriptor(), F_DUPFD_CLOEXEC, 0));
    if (!descriptors.front().valid()) return false;
    std::string frame(1, static_cast<char>(kControl));
    frame += protocol::encode_control(protocol::SegmentShared{id, segment->size_bytes()});
    carrier_.counters_->bytes_sent += frame.size();
    ++carrier_.counters_->frames_sent;
    peer_.link->send(std::move(frame), std::move(descriptors));
    peer_.shared.insert(id);
    return true;
  }

  Carrier& carrier_;
  Peer& peer_;
  std::vector<std::shared_ptr<const SharedSegment>> known_;
};

Carrier::Carrier(CarrierOptions options)
    : options_(std::move(options)),
      plans_(options_.plans),
      leases_(std::make_shared<LeaseBook>()),
      counters_(std::make_unique<Counters>()) {}

Carrier::~Carrier() {
  for (auto& [name, peer] : peers_) {
    if (peer->link) peer->link->close();
  }
}

void Carrier::host(std::vector<Address> roles) {
  const std::lock_guard lock(mutex_);
  hosted_ = {roles.begin(), roles.end()};
}

Carrier::PeerPtr Carrier::named(const std::string& name) {
  PeerPtr& peer = peers_[name];
  if (!peer) peer = std::make_shared<Peer>(name, options_.segments);
  return peer;
}

void Carrier::set_roster(const protocol::Roster& roster) {
  std::vector<PeerPtr> renewed;
  std::map<Address, PeerPtr> found;  // homes of roles that were written to before
  {
    const std::lock_guard lock(mutex_);
    for (const protocol::ProcessRoles& process : roster.processes) {
      uint32_t& known = generations_[process.name];
      if (known != 0 && process.generation > known) renewed.push_back(named(process.name));
      known = std::max(known, process.generation);
      for (const Address& role : process.roles) {
        Homes& homes = homes_[role];
        homes.standby.clear();
        (homes.early.empty() ? homes.active : found[role]) = named(process.name);
      }
    }
    for (const protocol::ProcessRoles& process : roster.processes) {
      for (const Address& role : process.standby) {
        Homes& homes = homes_[role];
        const PeerPtr peer = named(process.name);
        if (homes.active == peer) homes.active = nullptr;
        std::erase(homes.standby, peer);
        homes.standby.push_back(peer);
      }
    }
  }
  for (const PeerPtr& peer : renewed) {
    LinkPtr old;
    {
      const std::lock_guard lock(peer->mutex);
      peer->waiting.clear();
      old = peer->link;
    }
    if (!old) continue;
    disconnect(peer->name, old.get());
    old->close();
  }
  for (const auto& [role, peer] : found) settle(role, peer);
}

// What was sent before anybody knew where the role lives goes first, in its order.
void Carrier::settle(const Address& role, const PeerPtr& home) {
  while (true) {
    std::deque<Envelope> early;
    {
      const std::lock_guard lock(mutex_);
      Homes& homes = homes_[role];
      if (homes.early.empty()) {
        homes.active = home;
        return;
      }
      early.swap(homes.early);
    }
    for (Envelope& envelope : early) send_or_keep(*home, std::move(envelope));
  }
}

void Carrier::connect(const protocol::Hello& hello, LinkPtr link, bool remote) {
  PeerPtr peer;
  PeerId id = 0;
  std::vector<Address> found;  // roles that were written to before
  {
    const std::lock_guard lock(mutex_);
    peer = named(hello.name);
    if (hello.generation < generations_[hello.name]) {  // said by one that is dead by now
      link->close();
      return;
    }
    id = ++last_peer_;
    for (const Address& role : hello.roles) {
      Homes& homes = homes_[role];  // a greeting makes nobody active whom the roster has stand by
      const auto& standby = homes.standby;
      if (std::find(standby.begin(), standby.end(), peer) != standby.end()) continue;
      if (homes.early.empty()) {
        homes.active = peer;
      } else {
        found.push_back(role);
      }
    }
    uint32_t& known = generations_[hello.name];
    known = std::max(known, hello.generation);
  }
  leases_->add_peer(id);
  take_link(*peer, id, std::move(link), remote);
  for (const Address& role : found) settle(role, peer);
}

void Carrier::take_link(Peer& peer, PeerId id, LinkPtr link, bool remote) {
  const std::lock_guard lock(peer.mutex);
  if (peer.link) {
    leases_->drop_peer(peer.id);
    peer.link->close();
  }
  peer.link = std::move(link);
  peer.id = id;
  peer.remote = remote;
  peer.told_early.clear();
  peer.shared.clear();
  peer.plans_sent.clear();
  peer.client_plans_sent.clear();
  peer.trees_sent.clear();
  peer.segments = std::make_shared<SegmentMap>(options_.segments);
  peer.passed_on.clear();
  peer.client_plans.clear();
  for (std::deque<Envelope> waiting = std::move(peer.waiting); const Envelope& one : waiting) {
    send_to(peer, one);
  }
  peer.waiting.clear();
}

bool Carrier::disconnect(const std::string& name, const Link* link) {
  PeerPtr peer;
  {
    const std::lock_guard lock(mutex_);
    const auto found = peers_.find(name);
    if (found == peers_.end()) return false;
    peer = found->second;
  }
  PeerId id = 0;
  {
    const std::lock_guard lock(peer->mutex);
    if (peer->link.get() != link) return false;
    peer->link.reset();
    id = peer->id;
  }
  leases_->drop_peer(id);
  return true;
}

void Carrier::forget(const std::string& name) {
  PeerPtr peer;
  {
    const std::lock_guard lock(mutex_);
    generations_.erase(name);
    const auto found = peers_.find(name);
    if (found == peers_.end()) return;
    peer = found->second;
  }
  LinkPtr old;
  {
    const std::lock_guard lock(peer->mutex);
    peer->waiting.clear();
    old = peer->link;
  }
  if (old) disconnect(name, old.get());
}

bool Carrier::connected(const std::string& name) const {
  PeerPtr peer;
  {
    const std::lock_guard lock(mutex_);
    const auto found = peers_.find(name);
    if (found == peers_.end()) return false;
    peer = found->second;
  }
  const std::lock_guard lock(peer->mutex);
  return peer->link != nullptr;
}

void Carrier::send(Envelope envelope) {
  bool here = false;
  PeerPtr active;
  std::vector<PeerPtr> standby;
  {
    const std::lock_guard lock(mutex_);
    here = hosted_.contains(envelope.to);
    Homes& homes = homes_[envelope.to];
    active = homes.active;
    standby = homes.standby;
    // A plan for a host whose node has not told yet where its constructors live; a constructor's
    // acknowledgement while it is still calling the planner's host.
    if (!here && !active && homes.early.size() < kWaitingMost) homes.early.push_back(envelope);
  }
  if (protocol::for_every_home(envelope.message)) {
    for (const PeerPtr& peer : standby) send_or_keep(*peer, envelope);
  }
  if (here) {
    options_.deliver(std::move(envelope));
  } else if (active) {
    send_or_keep(*active, std::move(envelope));
  }
}

void Carrier::send_or_keep(Peer& peer, Envelope envelope) {
  const std::lock_guard lock(peer.mutex);
  if (peer.link) {
    send_to(peer, envelope);
  } else if (peer.waiting.size() < kWaitingMost) {
    peer.waiting.push_back(std::move(envelope));
  }
}

void Carrier::put(Peer& peer, std::string frame) {
  ++counters_->frames_sent;
  counters_->bytes_sent += frame.size();
  peer.link->send(std::move(frame));
}

void Carrier::put(Peer& peer, const WrittenPlans::Bytes& frame) {
  ++counters_->frames_sent;
  counters_->bytes_sent += frame->size();
  peer.link->send_held({frame, frame->data(), frame->size()});
}

void Carrier::send_to(Peer& peer, const Envelope& envelope) {
  if (const auto* published = std::get_if<protocol::PlanPublished>(&envelope.message)) {
    send_plan(peer, envelope, *published);
  } else {
    send_message(peer, envelope);
  }
}

// Those of the job's own tree are known to everybody. Of a later one the receiver may not have
// heard: one that starts anew gets plans that waited for it before anything else.
void Carrier::send_views(Peer& peer, const model::Plan& plan) {
  for (const model::Layer& layer : plan.layers) {
    if (!layer.views || layer.views->tree_version == 1) continue;
    if (!peer.trees_sent.insert(layer.views->tree_version).second) continue;
    std::string frame(1, static_cast<char>(kViews));
    frame += protocol::encode_views(*layer.views);
    put(peer, std::move(frame));
  }
}

// A constructor gets its bucket of the plan. What it passes on to its clients, a state that grows
// with the job, is the same for all of them: it is written once, and travels once to each process.
void Carrier::send_plan(Peer& peer, const Envelope& envelope,
                        const protocol::PlanPublished& published) {
  const StepIndex step = published.plan->step;
  const uint32_t tree = published.plan->versions.tree;
  if (std::exchange(peer.plans_sent[step], tree) != tree) {
    send_views(peer, *published.plan);
    put(peer, written_plans_.to_pass_on(published.plan));
    while (peer.plans_sent.size() > kPlansKept / 2) peer.plans_sent.erase(peer.plans_sent.begin());
  }
  ByteWriter writer;
  writer.u8(kPublished);
  writer.u64(step);
  writer.u32(tree);
  std::string frame = writer.take();
  frame += protocol::encode_envelope(envelope, {nullptr, envelope.to.index});
  put(peer, std::move(frame));
}

// A process may host thousands of ranks, and a plan's state grows with the job: what they all need
// of it travels, and is read, once. False: it goes with the message, over a wire that may reorder,
// or because it is older than what the receiver keeps.
bool Carrier::send_client_plan(Peer& peer, const model::PlanPtr& plan) {
  std::map<StepIndex, uint32_t>& sent = peer.client_plans_sent;
  const uint32_t tree = plan->versions.tree;
  send_views(peer, *plan);
  if (peer.remote) return false;
  if (!sent.empty() && plan->step + kPlansKept / 2 < sent.rbegin()->first) return false;
  if (std::exchange(sent[plan->step], tree) == tree) return true;
  std::string frame(1, static_cast<char>(kClientPlan));
  frame += *written_plans_.for_clients(plan);
  put(peer, std::move(frame));
  while (sent.begin()->first + kPlansKept / 2 < sent.rbegin()->first) sent.erase(sent.begin());
  return true;
}

void Carrier::send_message(Peer& peer, const Envelope& envelope) {
  Sender sender(*this, peer);
  protocol::EncodeOptions encoding{&sender, std::nullopt};
  std::shared_ptr<const std::string> plan;
  if (const auto* ready = std::get_if<protocol::StepReady>(&envelope.message)) {
    encoding.plan_apart = send_client_plan(peer, ready->plan);
    if (!encoding.plan_apart) plan = written_plans_.for_clients(ready->plan);
    encoding.plan_bytes = plan.get();
  }
  const std::string body = protocol::encode_envelope(envelope, encoding);
  Lease lease;
  if (sender.leased_bytes > 0) {
    Result<Lease> granted =
        leases_->grant(peer.id, std::make_shared<const Envelope>(envelope), sender.leased_bytes);
    if (!granted.ok()) return;  // it died this moment
    lease = granted.value();
  }
  ByteWriter head;
  head.u8(kEnvelope);
  head.u32(lease.number);
  head.u64(lease.generation);
  std::string frame = head.take();
  frame += body;
  put(peer, std::move(frame));
}

bool Carrier::send_control(const std::string& name, const Control& control) {
  PeerPtr peer;
  {
    const std::lock_guard lock(mutex_);
    const auto found = peers_.find(name);
    if (found == peers_.end()) return false;
    peer = found->second;
  }
  std::string frame(1, static_cast<char>(kControl));
  frame += protocol::encode_control(control);
  const std::lock_guard lock(peer->mutex);
  if (!peer->link) return false;
  put(*peer, std::move(frame));
  return true;
}

void Carrier::forget_segment(SegmentId segment) {
  std::vector<PeerPtr> peers;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, peer] : peers_) peers.push_back(peer);
  }
  for (const PeerPtr& peer : peers) {
    {
      const std::lock_guard lock(peer->mutex);
      if (peer->shared.erase(segment) == 0) continue;
    }
    send_control(peer->name, protocol::SegmentForgotten{segment});
  }
}

CarrierStats Carrier::stats() const {
  return {counters_->frames_sent,    counters_->frames_received, counters_->bytes_sent,
          counters_->bytes_received, counters_->inline_bytes,    counters_->refused,
          leases_->stats()};
}

}  // namespace overlord::transport
