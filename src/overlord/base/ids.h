// The identities that cross rooms: which source, which sample. Plain values, ordered, hashable.
#pragma once

#include <compare>
#include <cstdint>

#include "overlord/base/fields.h"

namespace overlord {

// Dense index of a source in the job's list, sorted by name. Stable for a manifest, not across
// them: what outlives a run names sources by name and digest.
using SourceIndex = uint32_t;
using StepIndex = uint64_t;
using Rank = uint32_t;

// A sample is named by where it stands in its source's order, never by a file and a row.
struct SampleId {
  SourceIndex source = 0;
  uint32_t pass = 0;
  uint64_t position = 0;

  friend auto operator<=>(const SampleId&, const SampleId&) = default;

  OVERLORD_FIELDS(source, pass, position)
};

}  // namespace overlord
