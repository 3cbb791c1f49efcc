// Plan: the immutable assignment of segments to bins for one step, with who sees what.
// `content_hash` reads no mesh; `plan_hash` covers all of it. Built in plan/, applied by the roles.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "overlord/base/fields.h"
#include "overlord/base/hash.h"
#include "overlord/base/ids.h"
#include "overlord/model/exchange.h"
#include "overlord/model/mesh.h"
#include "overlord/model/owner_map.h"
#include "overlord/model/plan_report.h"
#include "overlord/model/stream_state.h"

namespace overlord::model {

// The atom (law 3): tokens [first, first + count) of one part of a sample.
struct Segment {
  SampleId id;
  uint32_t first = 0;
  uint32_t count = 0;
  uint16_t part = 0;  // 0: tokens; 1: what an encoder reads, counted in its units
  uint16_t flags = 0;
  uint32_t targets = 0;  // tokens of it that carry loss

  static constexpr uint16_t kContinues =
      1;                                  // the document goes on: the next token is the last target
  static constexpr uint16_t kJoined = 2;  // in one group with the segment before it
};
static_assert(sizeof(Segment) == 32);

// Where one bin goes. Bins of a microbatch are numbered by `slot`.
struct Placement {
  uint32_t bucket = 0;
  uint32_t microbatch = 0;
  uint32_t slot = 0;

  friend bool operator==(const Placement&, const Placement&) = default;
};

struct HdpLayer;  // model/hdp_layer.h

// One module's part of a plan. Text training has one layer, "backbone"; an encoder with owners of
// its own is the second, with one bin per sample.
struct Layer {
  std::string module = "backbone";
  std::string axis = "dp";
  uint32_t buckets = 1;
  uint32_t microbatches = 1;          // per bucket; where they differ, of the bucket with most
  uint32_t microbatch_size = 1;       // bins
  uint32_t bin_capacity = 0;          // tokens
  std::vector<Segment> segments;      // in bin order
  std::vector<uint32_t> bin_ends;     // end of bin b's segments in `segments`
  std::vector<Placement> placements;  // one per bin
  std::vector<uint32_t> capacities;   // of each bin, where they differ; else empty
  std::shared_ptr<const ViewTable> views;
  std::shared_ptr<const PlanReport> report;    // of a strategy with a cost; else null
  std::vector<PlanReport> further_reports;     // of the further costs of a vector balance
  std::shared_ptr<const EncoderPlan> encoder;  // of an encoder's layer; else null
  std::shared_ptr<const HdpLayer> hdp;         // of a strategy whose atoms are slices; else null
  std::vector<uint32_t> bucket_microbatches;   // where buckets have different numbers; else empty

  uint32_t microbatches_of(uint32_t bucket) const {
    return bucket_microbatches.empty() ? microbatches : bucket_microbatches[bucket];
  }
  uint32_t bin_begin(uint32_t bin) const { return bin == 0 ? 0 : bin_ends[bin - 1]; }
};

struct Versions {    // law 13: on every plan and message, also where they never change
  uint64_t job = 0;  // low half of the config digest
  uint32_t attempt = 1;
  uint32_t generation = 1;
  uint32_t tree = 1;
  uint32_t owner_map = 1;
  uint32_t mixture = 1;
  uint32_t format = 1;

  friend bool operator==(const Versions&, const Versions&) = default;

  OVERLORD_FIELDS(job, attempt, generation, tree, owner_map, mixture, format)
};

inline constexpr uint32_t kPlanFormat = 1;

struct Plan {
  Versions versions;
  StepIndex step = 0;
  std::vector<Layer> layers;
  uint64_t tokens = 0;           // real tokens in the step
  uint64_t target_tokens = 0;    // loss-carrying tokens of the whole step, over all ranks
  uint64_t capacity = 0;         // bins x context
  std::vector<uint64_t> asked;   // per source, of this step, in mixture units (tokens or samples)
  std::vector<uint64_t> served;  // per source, tokens placed in this step
  uint32_t max_delay = 0;        // longest wait of a segment in it, in steps
  // Segments by the steps they waited between being drawn and being placed here; [0]: none. Told,
  // not hashed.
  std::vector<uint32_t> delays;
  // Of sources whose number of slots has changed: who serves the windows named here. Not hashed.
  std::vector<SourceOwners> owners;
  bool last = false;  // the stream ends with this step
  Digest content_hash;
  Digest plan_hash;
  std::shared_ptr<const StreamState> state_after;

  // The encoder's layer, or null.
  const Layer* encoder() const { return layers.size() > 1 ? &layers[1] : nullptr; }

  OVERLORD_FIELDS(versions, step, layers, tokens, target_tokens, capacity, asked, served, max_delay,
                  delays, owners, last, content_hash, plan_hash, state_after)
};

using PlanPtr = std::shared_ptr<const Plan>;

}  // namespace overlord::model
