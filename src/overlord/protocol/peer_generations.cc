#include "overlord/protocol/peer_generations.h"

#include <algorithm>

namespace overlord::protocol {

PeerGenerations::PeerGenerations(std::map<Address, uint32_t> known) : known_(std::move(known)) {}

uint32_t PeerGenerations::of(const Address& role) const {
  const auto found = known_.find(role);
  return found == known_.end() ? 1 : found->second;
}

bool PeerGenerations::stale(const model::Versions& ours, const Envelope& envelope) const {
  const model::Versions& theirs = envelope.versions;
  if (theirs.job != ours.job || theirs.attempt != ours.attempt || theirs.format != ours.format) {
    return true;
  }
  // Of their slot: compared with what is known of it, never with ours.
  return theirs.generation < of(envelope.from);
}

std::optional<PeerRestarted> PeerGenerations::news(const Envelope& envelope) const {
  if (envelope.versions.generation <= of(envelope.from)) return std::nullopt;
  return PeerRestarted{envelope.from, envelope.versions.generation};
}

void PeerGenerations::apply(const PeerRestarted& restarted) {
  uint32_t& known = known_[restarted.role];
  known = std::max(known, restarted.generation);
}

}  // namespace overlord::protocol
