// ResumeState: what `state_dict()` holds (law 7). The same bytes on every rank at a step boundary;
// inside a step only `microbatch` and its `layout` are added. Keyed by source name and digest,
// guarded by a checksum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/fields.h"
#include "overlord/base/hash.h"
#include "overlord/base/status.h"
#include "overlord/model/job_spec.h"
#include "overlord/model/manifest.h"
#include "overlord/model/stream_state.h"
#include "overlord/protocol/spec_codec.h"

namespace overlord::protocol {

// 2: with a controller and with feedback that does not count yet.
inline constexpr uint32_t kStateFormat = 2;
inline constexpr uint32_t kPlainStateFormat = 1;
// 3: 2 of a job with metadata columns; their names tell what the values of carried documents are.
inline constexpr uint32_t kColumnsStateFormat = 3;
// 4: 3 inside a step, with the layout that the count of microbatches means something on.
inline constexpr uint32_t kBoundStateFormat = 4;
// 5: all of it, with what the steps so far held and how many bins they have. What runs now writes
// it, and reads the others.
inline constexpr uint32_t kTotalsStateFormat = 5;

struct ResumeState {
  std::string stream;
  uint32_t microbatch = 0;  // microbatches of step `state.next_step` already returned
  // Mesh and dealing that `microbatch` counts on, as the face of the engine words them. Empty at a
  // step boundary, and inside the engine, which knows its own.
  std::string layout;
  Digest config;
  Digest manifest;
  std::vector<SectionDigest> sections;
  std::vector<std::string> source_names;  // parallel to state.cursors
  std::vector<Digest> source_digests;     // of their manifests
  model::StreamState state;
  std::vector<std::string> columns;  // JobSpec::columns
  // Of a metric-driven mixture: what was reported of the steps before `state.next_step` and does
  // not count yet, by step.
  std::vector<model::StepFeedback> feedback;
  std::vector<model::BinsStage> bins;  // JobSpec::bin_stages(); empty in what older builds wrote
  // Hash chains up to here, so a resumed run ends with the hash of an uninterrupted one.
  Digest content_chain;
  Digest plan_chain;
};

std::string encode_stream_state(const model::StreamState& state);
Result<model::StreamState> decode_stream_state(std::string_view bytes);

// An encoded stream state in three: its cursors, whose numbers hardly move from step to step, and
// the bytes on both sides of them. Bytes that no state begins with are all tail.
inline constexpr size_t kCursorNumbers = 8;
enum CursorNumber : size_t { kPass, kPosition, kDebt, kSamples, kTokens, kBad, kDropped, kDry };
struct StateParts {
  std::string_view head;
  std::vector<uint64_t> cursors;  // kCursorNumbers for each, as their varints say
  std::string_view tail;
};
StateParts state_parts(std::string_view bytes);

// The format that a state is written in.
uint32_t state_format(const ResumeState& state);
std::string encode_resume_state(const ResumeState& state);
// kBadData: truncated or damaged; kVersionMismatch: another format, naming both versions.
Result<ResumeState> decode_resume_state(std::string_view bytes);
// The encoded state with its layout, where it is inside a step; else as it is.
Result<std::string> bound_state(std::string_view bytes, std::string layout);

// What may differ between the job that saved a state and the one that loads it.
struct AllowedChanges {
  bool mixture = false;
  bool sources = false;  // gain and lose sources
  bool batch = false;    // how many bins steps have, from a step boundary on

  OVERLORD_FIELDS(mixture, sources, batch)
};

// The state in the terms of this job: cursors reordered by name, new sources at their start.
// kStateMismatch lists every difference that is not allowed, both digests shown.
Result<model::StreamState> adapt_state(const ResumeState& saved, const model::JobSpec& spec,
                                       const model::Manifest& manifest, AllowedChanges allowed);

}  // namespace overlord::protocol
