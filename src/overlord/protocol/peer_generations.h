// PeerGenerations: what a role knows of the generations of the slots it hears from. A message of a
// generation older than the newest known comes from a dead process and is refused (law 13); one of
// a newer generation than known is as good as the news of a restart.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "overlord/protocol/messages.h"

namespace overlord::protocol {

class PeerGenerations {
 public:
  PeerGenerations() = default;
  // Slots that are not named are in their first generation.
  explicit PeerGenerations(std::map<Address, uint32_t> known);

  uint32_t of(const Address& role) const;
  // Each version fences what rests on it and nothing else:
  //   job, attempt, format  everything: another stream, other trainers, words we do not understand
  //   generation            what a dead process of that slot has said
  //   tree, mixture,        nothing: plans carry theirs, a tree's constructors have addresses of
  //   owner_map             their own, and a window is the same whoever posts it
  bool stale(const model::Versions& ours, const Envelope& envelope) const;
  // The sender is younger than we knew.
  std::optional<PeerRestarted> news(const Envelope& envelope) const;
  // Generations only grow.
  void apply(const PeerRestarted& restarted);

 private:
  std::map<Address, uint32_t> known_;
};

}  // namespace overlord::protocol
