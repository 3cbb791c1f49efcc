// Messages between roles. Values; every envelope carries its versions (law 13) and stale ones are
// refused by the receiver. Inside one process bulk data travels as shared pointers; a carrier that
// leaves the process encodes them.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "overlord/base/fields.h"
#include "overlord/base/hash.h"
#include "overlord/base/ids.h"
#include "overlord/base/status.h"
#include "overlord/model/callout.h"
#include "overlord/model/media_slab.h"
#include "overlord/model/microbatch.h"
#include "overlord/model/mixture.h"
#include "overlord/model/owner_map.h"
#include "overlord/model/plan.h"
#include "overlord/model/plan_index.h"
#include "overlord/model/sample_meta.h"
#include "overlord/model/slot_rows.h"
#include "overlord/model/token_span.h"

namespace overlord::protocol {

enum class RoleKind : uint8_t { kPlanner, kLoader, kConstructor, kClient };

// planner: (0, 0); loader: (source, slot); constructor: (bucket, tree version - 1), as every tree
// has constructors of its own; client: (rank, 0).
struct Address {
  RoleKind kind = RoleKind::kPlanner;
  uint32_t index = 0;
  uint32_t slot = 0;

  friend auto operator<=>(const Address&, const Address&) = default;

  OVERLORD_FIELDS(kind, index, slot)
};

inline Address planner_address() { return {RoleKind::kPlanner, 0, 0}; }
inline Address loader_address(SourceIndex source, uint32_t slot) {
  return {RoleKind::kLoader, source, slot};
}
inline Address constructor_address(uint32_t bucket, uint32_t tree = 1) {
  return {RoleKind::kConstructor, bucket, tree - 1};
}
inline uint32_t tree_of(const Address& constructor) { return constructor.slot + 1; }
inline Address client_address(Rank rank) { return {RoleKind::kClient, rank, 0}; }

// planner -> loader: post metadata of windows [first, limit) of the source's endless window
// sequence; those before `first` have all been posted, by this slot's earlier generations too.
struct MetaGrant {
  uint64_t window_limit = 0;
  uint64_t first_window = 0;
  std::vector<model::OwnerRange> owners = {};  // of these windows; empty: as at the start

  OVERLORD_FIELDS(window_limit, first_window, owners)
};

// loader -> planner, one way, ahead of need.
struct MetaPosted {
  uint64_t sequence = 0;  // of the window; a restarted loader may post one again
  std::shared_ptr<const model::MetaWindow> window;

  OVERLORD_FIELDS(sequence, window)
};

// planner -> all constructors of its tree. One atomic record per step. To another process it goes
// without the bins of other buckets (plan_codec.h).
struct PlanPublished {
  model::PlanPtr plan;
  std::shared_ptr<const model::PlanIndex> index;
};

// planner -> every slot that reads something of a step: that, and nothing else of the plan.
struct RowsPlanned {
  model::SlotRowsPtr rows;

  OVERLORD_FIELDS(rows)
};

// A document whose packed media did not decode.
struct Undecodable {
  SampleId id;
  std::string reason;

  friend bool operator==(const Undecodable&, const Undecodable&) = default;

  OVERLORD_FIELDS(id, reason)
};

// constructor -> loader: positional, may be sent before the plan's rows reached it. Sent again
// with what did not decode: those documents are holes of the next answer.
struct Fetch {
  StepIndex step = 0;
  uint32_t bucket = 0;
  std::vector<Undecodable> undecodable = {};

  OVERLORD_FIELDS(step, bucket, undecodable)
};

// loader -> constructor: what this slot owns of (step, bucket).
struct Payload {
  StepIndex step = 0;
  uint32_t bucket = 0;
  SourceIndex source = 0;
  uint32_t slot = 0;
  std::vector<uint32_t> ordinals;  // index into the bucket's segments (model::BucketIndex)
  std::vector<model::TokenSpan> spans;
  std::vector<std::shared_ptr<const void>> holders;  // keep the spans' memory alive
  // Of those documents, in their order. Those that ranks encode are without data, or packed and
  // only judged.
  std::vector<model::MediaPiece> media;
  // What ranks of the bucket encode, whoever has the document; `ordinal` is the bin of the
  // encoder's layer. Packed ones of a document that another bucket has come with all that is packed
  // of it: who encodes a sample has to know whether its document is a hole.
  std::vector<model::MediaPiece> encoded;
};

using PayloadPtr = std::shared_ptr<const Payload>;

// client -> constructor: asks for a step; everything before `acknowledged` may be freed.
struct Get {
  StepIndex step = 0;
  StepIndex acknowledged = 0;

  OVERLORD_FIELDS(step, acknowledged)
};

// constructor -> client.
struct StepReady {
  StepIndex step = 0;
  model::PlanPtr plan;
  std::vector<model::MicrobatchPtr> microbatches;
};

// constructor -> planner: all its clients are done with steps < acknowledged. client -> constructor
// of an earlier tree, which it asks for nothing any more: the same of itself. planner ->
// constructor that starts in the middle: it is told of no plan before.
struct Acknowledged {
  StepIndex acknowledged = 0;

  OVERLORD_FIELDS(acknowledged)
};

// The stream cannot go on: steps >= step will not come. Sent towards the clients.
struct StreamFailed {
  StepIndex step = 0;
  Status status;

  OVERLORD_FIELDS(step, status)
};

// loader -> planner: rows found bad after their metadata was posted; they are holes. planner ->
// loader: the same row, when it is in the journal; the hole is served only then, so that no restart
// leaves one uncounted.
struct LateBad {
  StepIndex step = 0;
  SampleId id;
  std::string reason;

  OVERLORD_FIELDS(step, id, reason)
};

// client -> planner: what one rank measured of a step that it has consumed. planner -> client: the
// sum of all, with the newest weights: a user's rule is asked, and answers with weights alone.
struct Report {
  model::StepFeedback part;

  OVERLORD_FIELDS(part)
};

enum class Verdict : uint8_t {
  kAccepted,   // counts, or will when the other reporters are in; durable where it was the last
  kDuplicate,  // this rank has reported the step before: the first report counts
  kLate,       // the step lies before the start of this run: its feedback came with the state
  kEarly,      // the step has not been planned
  kUnwanted,   // nobody waits for reports of this rank, or they make no sense
};

// planner -> client.
struct ReportAnswered {
  StepIndex step = 0;
  Verdict verdict = Verdict::kAccepted;

  OVERLORD_FIELDS(step, verdict)
};

// supervisor -> every role, and a client to the planner: this slot died and lives again, with an
// empty memory. Whatever was on its way to it may be lost; what its earlier generations sent has no
// effect from now on.
struct PeerRestarted {
  Address role;
  uint32_t generation = 0;

  OVERLORD_FIELDS(role, generation)
};

// planner -> every role, when a planner has died and the next has folded the journal. Its term is
// the generation of the envelope; whoever has heard of it refuses all earlier ones.
struct TermOpened {};

// loader, constructor -> planner: it refuses earlier terms than this one from now on. The newest
// plan it has been told: a planner that knows less than somebody else must not go on. And where the
// stream ends, if it knows of an end: in one message, so that nothing is planned in between.
struct TermPromised {
  uint32_t term = 0;
  StepIndex planned = 0;  // the step behind that plan; 0: it has none
  Digest plan_hash;
  std::vector<StreamFailed> ends = {};
  uint32_t tree = 0;  // of that plan

  OVERLORD_FIELDS(term, planned, plan_hash, ends, tree)
};

// client -> planner: from some window on this many slots read the source.
struct SlotsWished {
  SourceIndex source = 0;
  uint32_t slots = 1;

  OVERLORD_FIELDS(source, slots)
};

// loader -> planner, now and then: how long its workers were at work so far, added up over them.
struct LoadTold {
  uint64_t busy_ns = 0;

  OVERLORD_FIELDS(busy_ns)
};

// planner -> client: a user's function, which lives where this rank does, is asked. Numbered over
// all terms. Asked again where the rank may not have heard it; whoever is at it already need not
// begin anew.
struct CalloutAsked {
  uint64_t question = 0;
  std::shared_ptr<const model::CalloutRequest> request;

  OVERLORD_FIELDS(question, request)
};

// client -> planner: what the function has answered, or why it has not.
struct CalloutTold {
  uint64_t question = 0;
  std::vector<int64_t> values;
  std::optional<Status> failure = {};

  OVERLORD_FIELDS(question, values, failure)
};

using Message = std::variant<MetaGrant, MetaPosted, PlanPublished, Fetch, PayloadPtr, Get,
                             StepReady, Acknowledged, StreamFailed, LateBad, Report, ReportAnswered,
                             PeerRestarted, TermOpened, TermPromised, SlotsWished, LoadTold,
                             RowsPlanned, CalloutAsked, CalloutTold>;

// What a home that only stands by must have heard when it becomes the active one.
inline bool for_every_home(const Message& message) {
  return std::holds_alternative<MetaGrant>(message) || std::holds_alternative<RowsPlanned>(message);
}

struct Envelope {
  model::Versions versions;  // `generation` is the sending slot's
  Address from;
  Address to;
  Message message;
};

}  // namespace overlord::protocol
