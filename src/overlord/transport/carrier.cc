#include "overlord/transport/carrier.h"

#include <fcntl.h>

#include <algorithm>
#include <atomic>

#include "overlord/base/bytes.h"

namespace overlord::transport {
namespace {

using protocol::Address;
using protocol::Control;
using protocol::Envelope;

// First byte of a frame.
enum Frame : uint8_t {
  kControl = 0,     // one Control
  kEnvelope = 1,    // lease number, lease generation (0: none), envelope
  kPlan = 2,        // the plan of a step, once per link, as WrittenPlans writes it for roles
  kPublished = 3,   // envelope head, step: that plan, for one role
  kClientPlan = 4,  // what clients need of a step's plan, once per link: a StepReady goes without
  kViews = 5,       // a table of views that plans name, once per link, before the first of them
};

constexpr size_t kPlansKept = 64;         // more than any runway; a role asks for no older one
constexpr size_t kWaitingMost = 1 << 16;  // envelopes for a process whose link is not up

}  // namespace

struct Carrier::Counters {
  std::atomic<uint64_t> frames_sent{0}, frames_received{0}, bytes_sent{0}, bytes_received{0},
      inline_bytes{0}, refused{0};
};

struct Carrier::Peer {
  explicit Peer(std::string peer_name, const SegmentMapOptions& options)
      : name(std::move(peer_name)), segments(std::make_shared<SegmentMap>(options)) {}

  const std::string name;
  std::mutex mutex;  // orders what is sent: announcements before what needs them
  LinkPtr link;      // null: not connected
  PeerId id = 0;     // of the link, in the lease book
  bool remote = false;
  std::set<SegmentId> shared;                         // our segments that it has
  std::set<StepIndex> plans_sent, client_plans_sent;  // over this link
  std::set<uint32_t> trees_sent;                      // whose views were
  std::deque<Envelope> waiting;
  // Of the loop's thread alone.
  std::shared_ptr<SegmentMap> segments;  // its segments that we have
  std::map<StepIndex, protocol::PlanPublished> plans;
  std::map<StepIndex, model::PlanPtr> client_plans;
  // Of another host, where a large plan may be overtaken by the news of it.
  std::map<StepIndex, std::vector<protocol::EnvelopeHead>> told_early;
};

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
    std::vector<Descriptor> descriptors;
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

// What a peer described, as this process sees it. All views of one message share one lease, which
// ends with the last of them.
struct Carrier::Reader final : protocol::RegionTable {
  std::optional<protocol::MemoryRef> describe(const void*, size_t) override { return std::nullopt; }
  Result<protocol::ResolvedMemory> resolve(const protocol::MemoryRef& ref) override {
    size_t at = 0;
    while (at < seen.size() && seen[at].region != ref.region) ++at;
    if (at == seen.size()) OVERLORD_RETURN_IF_ERROR(look_up(ref.region));
    const auto& [region, whole, holder] = seen[at];
    if (ref.offset > whole.size || ref.size_bytes > whole.size - ref.offset) {
      return segments->view({ref.region, ref.offset}, ref.size_bytes, nullptr).status();
    }
    return protocol::ResolvedMemory{whole.data + ref.offset, holder};
  }

  // A segment of this message: all of its documents that lie there have one holder.
  struct Seen {
    uint64_t region = 0;
    runtime::Bytes whole;
    std::shared_ptr<const void> holder;
  };
  Status look_up(uint64_t region) {
    OVERLORD_TRY(runtime::Bytes whole, segments->whole(region));
    using Held = std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>;
    auto holder = std::make_shared<const Held>(whole.holder, lease);
    seen.push_back({region, std::move(whole), std::move(holder)});
    return {};
  }

  SegmentMap* segments = nullptr;
  std::shared_ptr<const void> lease;
  std::vector<Seen> seen;
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
  {
    const std::lock_guard lock(mutex_);
    for (const protocol::ProcessRoles& process : roster.processes) {
      uint32_t& known = generations_[process.name];
      if (known != 0 && process.generation > known) renewed.push_back(named(process.name));
      known = std::max(known, process.generation);
      for (const Address& role : process.roles) homes_[role] = named(process.name);
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
}

void Carrier::connect(const protocol::Hello& hello, LinkPtr link, bool remote) {
  PeerPtr peer;
  PeerId id = 0;
  {
    const std::lock_guard lock(mutex_);
    peer = named(hello.name);
    if (hello.generation < generations_[hello.name]) {  // said by one that is dead by now
      link->close();
      return;
    }
    id = ++last_peer_;
    for (const Address& role : hello.roles) homes_[role] = peer;
    uint32_t& known = generations_[hello.name];
    known = std::max(known, hello.generation);
  }
  leases_->add_peer(id);
  const std::lock_guard lock(peer->mutex);
  if (peer->link) {
    leases_->drop_peer(peer->id);
    peer->link->close();
  }
  peer->link = std::move(link);
  peer->id = id;
  peer->remote = remote;
  peer->told_early.clear();
  peer->shared.clear();
  peer->plans_sent.clear();
  peer->client_plans_sent.clear();
  peer->trees_sent.clear();
  peer->segments = std::make_shared<SegmentMap>(options_.segments);
  peer->plans.clear();
  peer->client_plans.clear();
  for (std::deque<Envelope> waiting = std::move(peer->waiting); const Envelope& one : waiting) {
    send_to(*peer, one);
  }
  peer->waiting.clear();
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
  PeerPtr peer;
  {
    const std::lock_guard lock(mutex_);
    if (!hosted_.contains(envelope.to)) {
      const auto home = homes_.find(envelope.to);
      if (home == homes_.end()) return;  // nobody has said that it hosts this role
      peer = home->second;
    }
  }
  if (!peer) {
    options_.deliver(std::move(envelope));
    return;
  }
  const std::lock_guard lock(peer->mutex);
  if (peer->link) {
    send_to(*peer, envelope);
  } else if (peer->waiting.size() < kWaitingMost) {
    peer->waiting.push_back(std::move(envelope));
  }
}

void Carrier::put(Peer& peer, std::string frame) {
  ++counters_->frames_sent;
  counters_->bytes_sent += frame.size();
  peer.link->send(std::move(frame));
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

// Hundreds of loaders of one process are told of one plan: it travels once.
void Carrier::send_plan(Peer& peer, const Envelope& envelope,
                        const protocol::PlanPublished& published) {
  const StepIndex step = published.plan->step;
  if (peer.plans_sent.insert(step).second) {
    send_views(peer, *published.plan);
    std::string frame(1, static_cast<char>(kPlan));
    frame += *written_plans_.for_roles(published.plan);
    put(peer, std::move(frame));
    while (peer.plans_sent.size() > kPlansKept / 2) peer.plans_sent.erase(peer.plans_sent.begin());
  }
  ByteWriter writer;
  writer.u8(kPublished);
  writer.u64(step);
  std::string frame = writer.take();
  frame += protocol::encode_envelope(
      protocol::EnvelopeHead{envelope.versions, envelope.from, envelope.to}, std::string_view());
  put(peer, std::move(frame));
}

// A process may host thousands of ranks, and a plan's state grows with the job: what they all need
// of it travels, and is read, once. False: it goes with the message, over a wire that may reorder,
// or because it is older than what the receiver keeps.
bool Carrier::send_client_plan(Peer& peer, const model::PlanPtr& plan) {
  std::set<StepIndex>& sent = peer.client_plans_sent;
  send_views(peer, *plan);
  if (peer.remote) return false;
  if (!sent.empty() && plan->step + kPlansKept / 2 < *sent.rbegin()) return false;
  if (!sent.insert(plan->step).second) return true;
  std::string frame(1, static_cast<char>(kClientPlan));
  frame += *written_plans_.for_clients(plan);
  put(peer, std::move(frame));
  while (*sent.begin() + kPlansKept / 2 < *sent.rbegin()) sent.erase(sent.begin());
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

void Carrier::receive(const std::string& name, const Link* link, std::string_view frame,
                      std::vector<Descriptor> descriptors) {
  PeerPtr peer;
  {
    const std::lock_guard lock(mutex_);
    const auto found = peers_.find(name);
    if (found == peers_.end()) return;
    peer = found->second;
  }
  LinkPtr open;
  {
    const std::lock_guard lock(peer->mutex);
    if (peer->link.get() != link) return;  // of a link that was replaced
    open = peer->link;
  }
  ++counters_->frames_received;
  counters_->bytes_received += frame.size();
  const Status status = take(*peer, frame, std::move(descriptors));
  if (status.ok()) return;
  ++counters_->refused;
  if (options_.nonsense) options_.nonsense(name, status);
  open->close();  // whoever sends nonsense is not spoken to any more
}

Status Carrier::take(Peer& peer, std::string_view frame, std::vector<Descriptor> descriptors) {
  if (frame.empty()) return bad_data("an empty frame");
  const std::string_view rest = frame.substr(1);
  switch (static_cast<uint8_t>(frame.front())) {
    case kControl:
      return take_control(peer, rest, std::move(descriptors));
    case kEnvelope:
      return take_envelope(peer, rest);
    case kPlan:
      return take_plan(peer, rest);
    case kPublished:
      return take_published(peer, rest);
    case kClientPlan:
      return take_client_plan(peer, rest);
    case kViews:
      return take_views(rest);
    default:
      return bad_data("an unknown kind of frame");
  }
}

Status Carrier::take_envelope(Peer& peer, std::string_view rest) {
  ByteReader reader(rest);
  const Lease lease{reader.u32(), reader.u64()};
  OVERLORD_RETURN_IF_ERROR(reader.status("frame", false));
  Reader regions;
  regions.segments = peer.segments.get();
  if (lease.generation != 0) {
    // Sent back when the last view of the message is gone, from whichever thread that happens on.
    const std::shared_ptr<Link> link = peer.link;
    regions.lease = std::shared_ptr<const void>(link.get(), [link, lease](const void*) {
      std::string frame(1, static_cast<char>(kControl));
      frame += protocol::encode_control(protocol::LeaseReleased{lease.number, lease.generation});
      link->send(std::move(frame));
    });
  }
  const auto plan_of = [&peer](StepIndex step) {
    const auto found = peer.client_plans.find(step);
    return found == peer.client_plans.end() ? nullptr : found->second;
  };
  OVERLORD_TRY(Envelope envelope,
               protocol::decode_envelope(rest.substr(rest.size() - reader.remaining()),
                                         {plans_, &regions, plan_of}));
  options_.deliver(std::move(envelope));
  return {};
}

Status Carrier::take_plan(Peer& peer, std::string_view rest) {
  OVERLORD_TRY(model::PlanPtr plan, written_plans_.read_for_roles(rest, plans_));
  const StepIndex step = plan->step;
  auto index = model::PlanIndex::make(*plan, plans_.sources);
  const protocol::PlanPublished published{std::move(plan), std::move(index)};
  peer.plans.insert_or_assign(step, published);
  if (const auto early = peer.told_early.extract(step)) {
    for (const protocol::EnvelopeHead& head : early.mapped()) {
      options_.deliver({head.versions, head.from, head.to, published});
    }
  }
  while (peer.plans.size() > kPlansKept) peer.plans.erase(peer.plans.begin());
  return {};
}

Status Carrier::take_views(std::string_view rest) {
  OVERLORD_TRY(std::shared_ptr<const model::ViewTable> views, protocol::decode_views(rest));
  for (const auto& known : plans_.views) {
    if (known->tree_version == views->tree_version && known->digest == views->digest) return {};
  }
  plans_.views.push_back(std::move(views));
  return {};
}

Status Carrier::take_client_plan(Peer& peer, std::string_view rest) {
  OVERLORD_TRY(model::PlanPtr plan, protocol::decode_plan(rest, plans_));
  const StepIndex step = plan->step;
  peer.client_plans.insert_or_assign(step, std::move(plan));
  while (peer.client_plans.size() > kPlansKept) {
    peer.client_plans.erase(peer.client_plans.begin());
  }
  return {};
}

Status Carrier::take_published(Peer& peer, std::string_view rest) {
  ByteReader reader(rest);
  const StepIndex step = reader.u64();
  OVERLORD_RETURN_IF_ERROR(reader.status("frame", false));
  std::string_view body = rest.substr(rest.size() - reader.remaining());
  OVERLORD_TRY(protocol::EnvelopeHead head, protocol::decode_head(&body));
  const auto found = peer.plans.find(step);
  if (found == peer.plans.end() && peer.remote && peer.told_early.size() < kPlansKept) {
    peer.told_early[step].push_back(head);
    return {};
  }
  if (found == peer.plans.end()) return bad_data("a plan that was not sent");
  options_.deliver({head.versions, head.from, head.to, found->second});
  return {};
}

Status Carrier::take_control(Peer& peer, std::string_view rest,
                             std::vector<Descriptor> descriptors) {
  OVERLORD_TRY(Control control, protocol::decode_control(rest));
  if (const auto* shared = std::get_if<protocol::SegmentShared>(&control)) {
    if (descriptors.size() != 1) return bad_data("a segment comes with one descriptor");
    return peer.segments->add(shared->segment, shared->size_bytes, std::move(descriptors.front()));
  }
  if (!descriptors.empty()) return bad_data("descriptors that nobody announced");
  if (const auto* forgotten = std::get_if<protocol::SegmentForgotten>(&control)) {
    peer.segments->forget(forgotten->segment);
    return {};
  }
  if (const auto* released = std::get_if<protocol::LeaseReleased>(&control)) {
    leases_->release(peer.id, {released->number, released->generation});
    return {};
  }
  if (options_.control) options_.control(peer.name, std::move(control));
  return {};
}

CarrierStats Carrier::stats() const {
  return {counters_->frames_sent,    counters_->frames_received, counters_->bytes_sent,
          counters_->bytes_received, counters_->inline_bytes,    counters_->refused,
          leases_->stats()};
}

}  // namespace overlord::transport
