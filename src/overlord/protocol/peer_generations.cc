#include "overlord/protocol/peer_generations.h"

#include <algorithm>

namespace overlord::protocol {

PeerGenerations::PeerGenerations(std::map<Address, uint32_t> known) : known_(std::move(known)) {}

uint32_t PeerGenerations::of(const Address& role) const {
  const auto found = known_.find(role);
  return found == known_.end() ? 1 : found->second;
}

bool PeerGenerations::stale(const model::Versions& ours, const Envelope& envelope) const {
  model::Versions theirs = envelope.versions;
  theirs.generation = ours.generation;  // of their slot: compared with what is known of it alone
  return !(theirs == ours) || envelope.versions.generation < of(envelope.from);
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
