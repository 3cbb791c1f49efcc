// Journal records: what the planner cannot recompute, and every plan's hash (law 6).
// Folding them from the first to the last gives the planner's durable state back.
// A record is its list of fields (see fields/field_codec.h): who changes one raises kRecordFormat.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "overlord/base/fields.h"
#include "overlord/base/hash.h"
#include "overlord/base/status.h"
#include "overlord/model/callout.h"
#include "overlord/model/mesh.h"
#include "overlord/model/mixture.h"
#include "overlord/model/owner_map.h"
#include "overlord/model/plan.h"
#include "overlord/model/scale_inputs.h"
#include "overlord/protocol/messages.h"

namespace overlord::protocol {

// Written first, and again whenever a journal is compacted: which stream this is, of which run, and
// from where on plans follow. `versions.generation` is the planner's term.
struct JournalStart {
  model::Versions versions;
  Digest config;
  Digest manifest;
  std::string run;           // what trainers of one run and attempt have in common; empty: unknown
  StepIndex first_step = 0;  // of the run
  std::string state;         // encode_stream_state of the state before the first plan that follows
  Digest content_chain;      // over the plans before it
  Digest plan_chain;

  OVERLORD_FIELDS(versions, config, manifest, run, first_step, state, content_chain, plan_chain)
};

struct PlanRecord {
  model::Versions versions;
  StepIndex step = 0;
  StepIndex done = 0;  // steps before it were consumed when this one was planned: nobody asks again
  Digest content_hash;
  Digest plan_hash;
  std::string state_after;

  OVERLORD_FIELDS(versions, step, done, content_hash, plan_hash, state_after)
};

struct LateBadRecord {
  model::Versions versions;
  StepIndex step = 0;
  SampleId id;
  std::string reason;

  OVERLORD_FIELDS(versions, step, id, reason)
};

// What all reporters said of a step, summed; it counts from step `effective` on.
struct FeedbackRecord {
  model::Versions versions;
  StepIndex effective = 0;
  model::StepFeedback feedback;

  OVERLORD_FIELDS(versions, effective, feedback)
};

// Steps from `first_step` on are planned for another mesh; `versions.tree` is its version.
struct TreeRecord {
  model::Versions versions;
  StepIndex first_step = 0;
  std::vector<model::Axis> axes;
  // Those of the mesh, in its order, whose reports count from then on; empty: all of the job.
  std::vector<Rank> ranks = {};
  // Steps from first_step on may have been heard of: they are placed again, and what was read of
  // them is read anew.
  bool again = false;

  OVERLORD_FIELDS(versions, first_step, axes, ranks, again)
};

// What a user's function answered while step `step` was planned, in whole numbers: with it the plan
// can be made again without the function.
struct CalloutRecord {
  model::Versions versions;
  StepIndex step = 0;
  model::CalloutKind kind = model::CalloutKind::kCost;
  model::CalloutFunction function;
  std::vector<int64_t> values;

  OVERLORD_FIELDS(versions, step, kind, function, values)
};

// The stream ends before `step`: told to nobody before it is durable, so that all ranks end there.
struct FailureRecord {
  model::Versions versions;
  StepIndex step = 0;
  Status status;

  OVERLORD_FIELDS(versions, step, status)
};

// A constructor of an earlier tree that nobody needs any more.
struct RetiredRecord {
  model::Versions versions;
  Address constructor;

  OVERLORD_FIELDS(versions, constructor)
};

// Who reads a source's windows from now on; `versions.owner_map` counts the changes. Plans say it
// of the windows they name.
struct OwnersRecord {
  model::Versions versions;
  model::SourceOwners owners;
  uint32_t advised = 0;            // slots that it would have, where changes are only advised
  std::string reason;              // with what was measured, for people
  model::ScaleInputs inputs = {};  // deciding again from them gives the same

  OVERLORD_FIELDS(versions, owners, advised, reason, inputs)
};

using JournalRecord =
    std::variant<JournalStart, PlanRecord, LateBadRecord, FeedbackRecord, TreeRecord, CalloutRecord,
                 FailureRecord, RetiredRecord, OwnersRecord>;

// 8: a change of a source's slots tells what it was decided from.
inline constexpr uint8_t kRecordFormat = 8;

// One record by itself, each field as it is. A journal is written and read by record_chain.h.
std::string encode_record(const JournalRecord& record);
// kBadData: cut, or of no writer; kVersionMismatch: another format, naming both.
Result<JournalRecord> decode_record(std::string_view bytes);

}  // namespace overlord::protocol
