// Carrier: takes envelopes from the roles of this process to the roles of others on the same host.
// Bulk bytes are not sent: where they lie in this process's SharedPool the receiver maps them and
// holds a lease until it lets go; a receiver's death ends its leases. Everything else travels in
// the frame. Knows processes by name and finds the homes of a role in the roster or in the greeting
// of the process that hosts it. What is sent to a role before its home is known, or to a process
// before its link is up, waits; what was sent to one that died is lost, and the roles send it again
// when they are told (PeerRestarted).
//
// send() may be called from any thread and never blocks. Links and received frames belong to one
// thread, the event loop's.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "overlord/base/guarded_by.h"
#include "overlord/base/status.h"
#include "overlord/protocol/control.h"
#include "overlord/protocol/wire.h"
#include "overlord/runtime/seams.h"
#include "overlord/transport/link.h"
#include "overlord/transport/shared/lease_book.h"
#include "overlord/transport/shared/segment_map.h"
#include "overlord/transport/shared/shared_pool.h"
#include "overlord/transport/written_plans.h"

namespace overlord::transport {

struct CarrierOptions {
  std::string name;                  // of this process
  std::shared_ptr<SharedPool> pool;  // null: bytes travel in frames
  protocol::PlanContext plans;
  SegmentMapOptions segments;
  // For a role of this process; on the sender's thread or the loop's.
  std::function<void(protocol::Envelope)> deliver;
  // What a process said that is not the carrier's business; on the loop's thread.
  std::function<void(const std::string& peer, protocol::Control)> control;
  // A process sent what makes no sense and is not spoken to any more; on the loop's thread.
  std::function<void(const std::string& peer, const Status&)> nonsense;
};

struct CarrierStats {
  uint64_t frames_sent = 0, frames_received = 0, bytes_sent = 0, bytes_received = 0;
  uint64_t inline_bytes = 0;  // bulk that had to travel
  uint64_t refused = 0;       // frames that made no sense
  LeaseStats leases;
};

class Carrier final : public runtime::Transport<protocol::Envelope> {
 public:
  explicit Carrier(CarrierOptions options);
  ~Carrier() override;

  void host(std::vector<protocol::Address> roles);  // those of this process
  void send(protocol::Envelope envelope) override;
  // What plans may refer to, where it is not known from the start; on the loop's thread.
  void know(protocol::PlanContext plans) { plans_ = std::move(plans); }
  // False when there is no link to it.
  bool send_control(const std::string& peer, const protocol::Control& control);

  // Where roles live now. A process under a new generation loses what still waits for it.
  void set_roster(const protocol::Roster& roster);
  // The link to a process that has said who it is; replaces an older one of that name. One on
  // another host sees nothing of our memory: to it everything is sent.
  void connect(const protocol::Hello& hello, LinkPtr link, bool remote = false);
  // On the loop's thread. A frame that makes no sense closes the link.
  void receive(const std::string& peer, const Link* link, std::string_view frame,
               std::vector<runtime::Descriptor> descriptors);
  // The link is gone: its leases come back. False when it was replaced before.
  bool disconnect(const std::string& peer, const Link* link);
  // Whoever comes by that name is another one, of any generation, and hears nothing that was kept
  // for this one.
  void forget(const std::string& peer);

  bool connected(const std::string& peer) const;
  CarrierStats stats() const;
  // A segment of the own pool was given up: nobody needs to keep its pages.
  void forget_segment(SegmentId segment);

 private:
  class Sender;  // a RegionTable of what one peer can see of our memory
  struct Reader;
  struct Peer;
  using PeerPtr = std::shared_ptr<Peer>;
  struct AddressHash {
    size_t operator()(const protocol::Address& role) const {
      const uint64_t key = uint64_t{role.index} << 32 | role.slot;
      return std::hash<uint64_t>()(4 * key + static_cast<uint64_t>(role.kind));
    }
  };

  struct Homes {     // of one role
    PeerPtr active;  // null: none that we know
    std::vector<PeerPtr> standby;
    std::deque<protocol::Envelope> early;  // sent while there was no active one
  };

  PeerPtr named(const std::string& name) OVERLORD_REQUIRES(mutex_);
  void take_link(Peer& peer, PeerId id, LinkPtr link, bool remote);
  void settle(const protocol::Address& role, const PeerPtr& home);
  void send_or_keep(Peer& peer, protocol::Envelope envelope);
  void send_to(Peer& peer, const protocol::Envelope& envelope);
  void send_plan(Peer& peer, const protocol::Envelope& envelope,
                 const protocol::PlanPublished& published);
  void send_message(Peer& peer, const protocol::Envelope& envelope);
  bool send_client_plan(Peer& peer, const model::PlanPtr& plan);
  void send_views(Peer& peer, const model::Plan& plan);
  void put(Peer& peer, std::string frame);
  void put(Peer& peer, const WrittenPlans::Bytes& frame);  // many peers have one
  Status take(Peer& peer, std::string_view frame, std::vector<runtime::Descriptor> descriptors);
  Status take_envelope(Peer& peer, std::string_view rest);
  Status take_passed_on(Peer& peer, std::string_view rest);
  Status take_views(std::string_view rest);
  Status take_client_plan(Peer& peer, std::string_view rest);
  Status take_published(Peer& peer, std::string_view rest);
  Status deliver_plan(std::string_view envelope);
  Status take_control(Peer& peer, std::string_view rest,
                      std::vector<runtime::Descriptor> descriptors);

  const CarrierOptions options_;
  protocol::PlanContext plans_;
  mutable std::mutex mutex_;  // of the maps; never held while a peer is spoken to
  // By thousands where clients are emulated, and asked for every message.
  std::unordered_set<protocol::Address, AddressHash> hosted_ OVERLORD_GUARDED_BY(mutex_);
  std::unordered_map<protocol::Address, Homes, AddressHash> homes_ OVERLORD_GUARDED_BY(mutex_);
  std::map<std::string, uint32_t> generations_ OVERLORD_GUARDED_BY(mutex_);
  std::map<std::string, PeerPtr> peers_ OVERLORD_GUARDED_BY(mutex_);
  std::shared_ptr<LeaseBook> leases_;
  uint64_t last_peer_ OVERLORD_GUARDED_BY(mutex_) = 0;
  WrittenPlans written_plans_;
  struct Counters;
  std::unique_ptr<Counters> counters_;
};

}  // namespace overlord::transport
