// Who reads what (law 8). Every source has so many slots from a window of its endless sequence on;
// windows that were granted keep theirs. Outside the hashes: it changes while a stream runs, and no
// byte of the stream with it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "overlord/base/fields.h"
#include "overlord/base/ids.h"

namespace overlord::model {

struct LoaderSlot {
  SourceIndex source = 0;
  uint32_t slot = 0;

  friend auto operator<=>(const LoaderSlot&, const LoaderSlot&) = default;

  OVERLORD_FIELDS(source, slot)
};

// Windows from the first on, until the next range's, are dealt over this many slots.
struct OwnerRange {
  uint64_t first_window = 0;
  uint32_t slots = 1;

  friend bool operator==(const OwnerRange&, const OwnerRange&) = default;

  OVERLORD_FIELDS(first_window, slots)
};

// Of a source whose number of slots has changed: those that windows in use go by, ascending.
struct SourceOwners {
  SourceIndex source = 0;
  std::vector<OwnerRange> ranges;

  friend bool operator==(const SourceOwners&, const SourceOwners&) = default;

  OVERLORD_FIELDS(source, ranges)
};

// Of one source. Whoever wants to know asks here, so that a map of another kind changes this and
// nothing else.
struct Owners {
  uint32_t at_start = 1;                // slots, where nothing has changed
  std::span<const OwnerRange> changed;  // empty: nothing has

  // What no window in use goes by may have been forgotten: those before the first are like it.
  uint32_t slots_at(uint64_t window) const {
    uint32_t slots = changed.empty() ? at_start : changed.front().slots;
    for (const OwnerRange& range : changed) {
      if (range.first_window <= window) slots = range.slots;
    }
    return slots;
  }
  // Slots that own something, or may.
  uint32_t most_slots() const {
    uint32_t most = changed.empty() ? at_start : 0;
    for (const OwnerRange& range : changed) most = std::max(most, range.slots);
    return most;
  }
  // `window`: of the endless sequence. In the next pass the same slot has it again, as long as
  // there are as many.
  uint32_t owner_of(uint64_t window, uint64_t windows_per_pass) const {
    return static_cast<uint32_t>(window % windows_per_pass % slots_at(window));
  }
};

// `changes`: by source, ascending.
inline Owners owners_of(std::span<const SourceOwners> changes, SourceIndex source,
                        uint32_t at_start) {
  const auto found = std::lower_bound(
      changes.begin(), changes.end(), source,
      [](const SourceOwners& one, SourceIndex other) { return one.source < other; });
  if (found == changes.end() || found->source != source) return {at_start, {}};
  return {at_start, found->ranges};
}

}  // namespace overlord::model
