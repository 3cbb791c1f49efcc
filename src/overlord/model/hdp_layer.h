// HdpLayer: the slices of a plan's layer: which sequence each is of, and with whom it is worked on.
// Part of the plan hash. Ranks of groups are consumers here: the nodes of the place tree at the
// strategy's axis.
#pragma once

#include <cstdint>
#include <vector>

#include "overlord/base/fields.h"
#include "overlord/model/hdp.h"
#include "overlord/model/plan.h"

namespace overlord::model {

// One segment of a bin as a part of the sequence it was cut from.
struct HdpPart {
  uint32_t sequence = 0;  // of HdpLayer::sequences
  uint32_t chunk = 0;     // of 2 x members; 0, the whole sequence, where one consumer has it
  uint32_t offset = 0;    // tokens of the sequence before it: the position of its first token
};

// One microbatch of a consumer: the share of a group that it holds.
struct HdpShare {
  uint32_t group = 0;   // of HdpLayer::groups
  uint32_t member = 0;  // its place in the group's ring
  uint32_t first_part = 0;
  uint32_t parts = 0;
};

struct HdpLayer {
  uint32_t align = 1;  // chunks are cut at multiples of it
  uint32_t substeps = 1;
  std::vector<Segment> sequences;  // what selection chose, uncut, in its order
  // In the one order that every consumer keeps for the groups it is in. A consumer without work in
  // a substep has a group of its own without sequences: steps must end on every rank.
  std::vector<HdpGroup> groups;
  std::vector<HdpPart> parts;    // by segment of the layer
  std::vector<HdpShare> shares;  // by bin of the layer
  // Where the layer was cut down to one bucket: what its bins are in the whole one. Then there are
  // no sequences, groups and shares, which are for those who get the whole.
  std::vector<uint32_t> bins = {};

  OVERLORD_FIELDS(align, substeps, sequences, groups, parts, shares, bins)
};

}  // namespace overlord::model
