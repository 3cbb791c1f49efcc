// The receiving half of the carrier: frames of other processes, read and handed to roles.
#include <algorithm>
#include <utility>

#include "overlord/base/bytes.h"
#include "overlord/transport/carrier.h"
#include "overlord/transport/carrier_peer.h"

namespace overlord::transport {

using protocol::Control;
using protocol::Envelope;

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

void Carrier::receive(const std::string& name, const Link* link, std::string_view frame,
                      std::vector<runtime::Descriptor> descriptors) {
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

Status Carrier::take(Peer& peer, std::string_view frame,
                     std::vector<runtime::Descriptor> descriptors) {
  if (frame.empty()) return bad_data("an empty frame");
  const std::string_view rest = frame.substr(1);
  switch (static_cast<uint8_t>(frame.front())) {
    case kControl:
      return take_control(peer, rest, std::move(descriptors));
    case kEnvelope:
      return take_envelope(peer, rest);
    case kPassedOn:
      return take_passed_on(peer, rest);
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

Status Carrier::take_passed_on(Peer& peer, std::string_view rest) {
  OVERLORD_TRY(const auto told, written_plans_.keep_passed_on(rest));
  uint32_t& known = peer.passed_on[told.first];
  known = std::max(known, told.second);
  const auto early = peer.told_early.extract(told);
  while (peer.passed_on.size() > kPlansKept) peer.passed_on.erase(peer.passed_on.begin());
  if (!early) return {};
  for (const std::string& envelope : early.mapped()) {
    OVERLORD_RETURN_IF_ERROR(deliver_plan(envelope));
  }
  return {};
}

Status Carrier::deliver_plan(std::string_view bytes) {
  OVERLORD_TRY(Envelope envelope, protocol::decode_envelope(bytes, {plans_, nullptr, nullptr}));
  const auto* published = std::get_if<protocol::PlanPublished>(&envelope.message);
  if (published == nullptr) return bad_data("something else in the place of a plan");
  written_plans_.hold(published->plan);
  options_.deliver(std::move(envelope));
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
  const uint32_t tree = reader.u32();
  OVERLORD_RETURN_IF_ERROR(reader.status("frame", false));
  const std::string_view envelope = rest.substr(rest.size() - reader.remaining());
  const auto found = peer.passed_on.find(step);
  const uint32_t known = found == peer.passed_on.end() ? 0 : found->second;
  if (known > tree) return {};  // placed again since
  if (known == tree) return deliver_plan(envelope);
  if (!peer.remote || peer.told_early.size() >= kPlansKept) {
    return bad_data("a plan without what is passed on of it");
  }
  peer.told_early[{step, tree}].emplace_back(envelope);
  return {};
}

Status Carrier::take_control(Peer& peer, std::string_view rest,
                             std::vector<runtime::Descriptor> descriptors) {
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

}  // namespace overlord::transport
