// LeaseBook: which buffers are in whose hands. A buffer that was handed to another process stays
// alive until that process gives it back or is known to be dead; time plays no part. A lease is a
// number and a generation: the number is used again, the generation never, so a release that comes
// late, twice or from nowhere frees nothing of anybody else's. Thread-safe; owned by whoever hands
// buffers out. What it lets go of is destroyed outside its lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "overlord/base/guarded_by.h"
#include "overlord/base/status.h"

namespace overlord::transport {

using PeerId = uint64_t;  // chosen by the caller, never used again: a link's id

struct Lease {
  uint32_t number = 0;
  uint64_t generation = 0;  // 0 is no lease's

  friend bool operator==(const Lease&, const Lease&) = default;
};

struct LeaseStats {
  uint64_t peers = 0;
  uint64_t leases = 0;      // held now
  uint64_t held_bytes = 0;  // counted once per lease
  uint64_t granted_count = 0;
  uint64_t released_count = 0;
  uint64_t dropped_count = 0;  // ended by the holder's death
  uint64_t stale_count = 0;    // releases that named no lease of their sender
};

class LeaseBook {
 public:
  // A peer holds nothing before it is added, and nothing can be granted to it after it was dropped:
  // a grant that races with a death leaves nothing behind.
  void add_peer(PeerId peer);
  // The peer is dead: everything it held comes back. The number of its leases.
  size_t drop_peer(PeerId peer);

  // Keeps `holder` until the lease ends. kUnavailable when the peer is not (or no more) known.
  Result<Lease> grant(PeerId peer, std::shared_ptr<const void> holder, uint64_t size_bytes);
  // False, and counted, unless `peer` holds exactly this lease.
  bool release(PeerId peer, Lease lease);

  uint64_t held_bytes(PeerId peer) const;
  LeaseStats stats() const;

 private:
  struct Slot {
    uint64_t generation = 0;
    PeerId peer = 0;
    uint64_t size_bytes = 0;
    std::shared_ptr<const void> holder;
    bool used = false;
  };
  struct Account {
    std::set<uint32_t> numbers;
    uint64_t held_bytes = 0;
  };
  std::shared_ptr<const void> free_slot(uint32_t number) OVERLORD_REQUIRES(mutex_);

  mutable std::mutex mutex_;
  std::vector<Slot> slots_ OVERLORD_GUARDED_BY(mutex_);
  std::vector<uint32_t> free_ OVERLORD_GUARDED_BY(mutex_);  // numbers, last in first out
  std::map<PeerId, Account> peers_ OVERLORD_GUARDED_BY(mutex_);
  uint64_t last_generation_ OVERLORD_GUARDED_BY(mutex_) = 0;
  LeaseStats stats_ OVERLORD_GUARDED_BY(mutex_);
};

}  // namespace overlord::transport
