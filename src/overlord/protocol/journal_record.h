// Journal records: what the planner cannot recompute, and every plan's hash (law 6).
// Folding them from the first to the last gives the planner's durable state back.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "overlord/base/hash.h"
#include "overlord/base/status.h"
#include "overlord/model/callout.h"
#include "overlord/model/mesh.h"
#include "overlord/model/mixture.h"
#include "overlord/model/plan.h"

namespace overlord::protocol {

// Written first by every run: which stream this is and where the run starts.
struct JournalStart {
  model::Versions versions;
  Digest config;
  Digest manifest;
  std::string state;  // encode_stream_state of the state before the first plan
};

struct PlanRecord {
  model::Versions versions;
  StepIndex step = 0;
  Digest content_hash;
  Digest plan_hash;
  std::string state_after;
};

struct LateBadRecord {
  model::Versions versions;
  StepIndex step = 0;
  SampleId id;
  std::string reason;
};

// What all reporters said of a step, summed; it counts from step `effective` on.
struct FeedbackRecord {
  model::Versions versions;
  StepIndex effective = 0;
  model::StepFeedback feedback;
};

// Steps from `first_step` on are planned for another mesh; `versions.tree` is its version.
struct TreeRecord {
  model::Versions versions;
  StepIndex first_step = 0;
  std::vector<model::Axis> axes;
};

// What a user's function answered while step `step` was planned, in whole numbers: with it the plan
// can be made again without the function.
struct CalloutRecord {
  model::Versions versions;
  StepIndex step = 0;
  model::CalloutKind kind = model::CalloutKind::kCost;
  model::CalloutFunction function;
  std::vector<int64_t> values;
};

using JournalRecord = std::variant<JournalStart, PlanRecord, LateBadRecord, FeedbackRecord,
                                   TreeRecord, CalloutRecord>;

std::string encode_record(const JournalRecord& record);
Result<JournalRecord> decode_record(std::string_view bytes);

}  // namespace overlord::protocol
