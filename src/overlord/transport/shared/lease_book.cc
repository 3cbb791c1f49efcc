#include "overlord/transport/shared/lease_book.h"

#include <string>
#include <utility>

namespace overlord::transport {

void LeaseBook::add_peer(PeerId peer) {
  std::lock_guard lock(mutex_);
  peers_.try_emplace(peer);
  stats_.peers = peers_.size();
}

std::shared_ptr<const void> LeaseBook::free_slot(uint32_t number) {
  Slot& slot = slots_[number];
  slot.used = false;
  stats_.leases -= 1;
  stats_.held_bytes -= slot.size_bytes;
  free_.push_back(number);
  return std::move(slot.holder);
}

size_t LeaseBook::drop_peer(PeerId peer) {
  std::vector<std::shared_ptr<const void>> ended;
  std::lock_guard lock(mutex_);  // destroyed before `ended`
  const auto found = peers_.find(peer);
  if (found == peers_.end()) return 0;
  ended.reserve(found->second.numbers.size());
  for (const uint32_t number : found->second.numbers) ended.push_back(free_slot(number));
  stats_.dropped_count += ended.size();
  peers_.erase(found);
  stats_.peers = peers_.size();
  return ended.size();
}

Result<Lease> LeaseBook::grant(PeerId peer, std::shared_ptr<const void> holder,
                               uint64_t size_bytes) {
  std::lock_guard lock(mutex_);
  const auto found = peers_.find(peer);
  if (found == peers_.end()) {
    return Status(Code::kUnavailable,
                  "peer " + std::to_string(peer) + " is gone: nothing can be leased to it");
  }
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const uint32_t number = free_.back();
  free_.pop_back();
  slots_[number] = {++last_generation_, peer, size_bytes, std::move(holder), true};
  found->second.numbers.insert(number);
  found->second.held_bytes += size_bytes;
  stats_.leases += 1;
  stats_.held_bytes += size_bytes;
  stats_.granted_count += 1;
  return Lease{number, last_generation_};
}

bool LeaseBook::release(PeerId peer, Lease lease) {
  std::shared_ptr<const void> ended;
  std::lock_guard lock(mutex_);
  const bool known = lease.number < slots_.size() && slots_[lease.number].used &&
                     slots_[lease.number].generation == lease.generation &&
                     slots_[lease.number].peer == peer;
  if (!known) {
    stats_.stale_count += 1;
    return false;
  }
  Account& account = peers_.at(peer);
  account.numbers.erase(lease.number);
  account.held_bytes -= slots_[lease.number].size_bytes;
  ended = free_slot(lease.number);
  stats_.released_count += 1;
  return true;
}

uint64_t LeaseBook::held_bytes(PeerId peer) const {
  std::lock_guard lock(mutex_);
  const auto found = peers_.find(peer);
  return found == peers_.end() ? 0 : found->second.held_bytes;
}

LeaseStats LeaseBook::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace overlord::transport
