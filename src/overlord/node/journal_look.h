// JournalLook: what a journal folder tells people. Read without changing anything, also while a
// planner writes: which stream and run it is of, where it ends, and what a planner that reads it
// would do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "overlord/base/fields.h"
#include "overlord/base/ids.h"
#include "overlord/base/status.h"
#include "overlord/model/scale_inputs.h"

namespace overlord::node {

struct SegmentLook {
  std::string name;
  uint32_t term = 0;
  uint32_t number = 0;
  uint64_t size_bytes = 0;

  OVERLORD_FIELDS(name, term, number, size_bytes)
};

struct PlanLook {
  StepIndex step = 0;
  std::string content_hash;
  std::string plan_hash;

  OVERLORD_FIELDS(step, content_hash, plan_hash)
};

struct FeedbackLook {
  StepIndex step = 0;
  StepIndex effective = 0;  // it counts from this step on
  uint64_t sources = 0;     // that had losses
  bool weights = false;     // a user's rule has answered

  OVERLORD_FIELDS(step, effective, sources, weights)
};

struct TreeLook {
  uint32_t version = 0;
  StepIndex first_step = 0;
  std::string mesh;
  std::vector<Rank> ranks;  // of the mesh, in its order; empty: all of the job

  OVERLORD_FIELDS(version, first_step, mesh, ranks)
};

// How many slots read a source whose number has changed.
struct OwnersLook {
  SourceIndex source = 0;
  uint32_t slots = 0;
  uint64_t first_window = 0;  // from which on
  uint32_t advised = 0;       // 0: it was done
  std::string reason;
  model::ScaleInputs inputs;  // that it was decided from

  OVERLORD_FIELDS(source, slots, first_window, advised, reason, inputs)
};

struct LateBadLook {
  StepIndex step = 0;
  SourceIndex source = 0;
  uint32_t pass = 0;
  uint64_t position = 0;
  std::string reason;

  OVERLORD_FIELDS(step, source, pass, position, reason)
};

struct CalloutLook {
  StepIndex step = 0;
  std::string kind;
  std::string function;
  std::string version;
  uint64_t values = 0;

  OVERLORD_FIELDS(step, kind, function, version, values)
};

struct FailureLook {
  StepIndex step = 0;  // the stream ends before it
  std::string message;

  OVERLORD_FIELDS(step, message)
};

struct JournalLook {
  std::string folder;
  std::vector<SegmentLook> segments;  // all that are there, in order
  std::string counts;                 // the segment whose records count; empty: nothing is durable
  uint64_t valid_bytes = 0;           // of it
  uint64_t cut_bytes = 0;             // torn tail, and torn bases of later segments
  uint64_t records = 0;
  // Of the newest start; nothing of these means anything where nothing is durable.
  std::string config;
  std::string manifest;
  std::string run;
  uint32_t attempt = 0;
  uint32_t term = 0;
  StepIndex first_step = 0;
  std::vector<PlanLook> plans;  // all that the folder still has
  StepIndex remade_from = 0;    // a planner that reads this makes plans from here on again ...
  StepIndex next_step = 0;      // ... and new ones from here on
  bool ended = false;           // the stream has ended before next_step
  std::vector<FeedbackLook> feedback;
  std::vector<TreeLook> trees;
  std::vector<OwnersLook> owners;
  std::vector<LateBadLook> late_bad;
  std::vector<CalloutLook> callouts;
  uint64_t retired = 0;  // constructors of earlier trees
  std::optional<FailureLook> failure;

  OVERLORD_FIELDS(folder, segments, counts, valid_bytes, cut_bytes, records, config, manifest, run,
                  attempt, term, first_step, plans, remade_from, next_step, ended, feedback, trees,
                  owners, late_bad, callouts, retired, failure)
};

// kNotFound: no journal is there; kBadData names the file and where it is damaged.
Result<JournalLook> look_at_journal(const std::string& folder);

}  // namespace overlord::node
