// Faults of the simulated world: what may happen, when, and how often it has. Test only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace overlord::sim {

enum class Fault : uint8_t {
  kPlannerDies,
  kKeeperDies,
  kRoleDies,  // loaders, shadows, constructors
  kRankDies,
  kFreezes,      // a process stops, and goes on
  kSlow,         // a process gets little of its CPU
  kLinkHeld,     // cut for so short that what was sent arrives late
  kLinkCut,      // and closed: what was on its way is lost
  kDiskFull,     // of the journal
  kDiskLoses,    // what was written and not synced
  kSyncFails,    // for good
  kMemoryShort,  // whoever holds most is killed
  kReadLate,
  kReadStuck,
  kReadFails,
  kClockJumps,
  kBadRow,
  kHostLeaves,  // with all that lives there
};
inline constexpr size_t kFaults = static_cast<size_t>(Fault::kHostLeaves) + 1;

const char* name_of(Fault fault);

// How many have landed, by kind.
class Landed {
 public:
  void add(Fault fault) { ++counts_[static_cast<size_t>(fault)]; }
  uint64_t of(Fault fault) const { return counts_[static_cast<size_t>(fault)]; }
  uint64_t total() const;
  Landed& operator+=(const Landed& other);
  std::string text() const;  // those that have: "planner dies 3, link is cut 1"

 private:
  std::array<uint64_t, kFaults> counts_{};
};

// So many over the run, each with one chance in `rarity` at every occasion, for about so long.
struct Spells {
  uint64_t most = 0;
  uint64_t rarity = 40;
  int64_t lasts_ns = 1'000'000;
};

// What all worlds of this thread came to, since somebody last looked: added when a world is over.
struct Tally {
  uint64_t trace = 0;  // of every event and arrival, in order: equal only for equal runs
  int64_t simulated_ns = 0;
  Landed landed;
};
Tally& tally();

}  // namespace overlord::sim
