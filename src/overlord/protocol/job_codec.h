// JobFile: all that a process needs to run a job, as bytes: what another process checked and opened
// is run from here without a config, a Python interpreter or the environment of a trainer. Guarded
// by a checksum and by the digest of its config.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/fields.h"
#include "overlord/base/ids.h"
#include "overlord/base/status.h"
#include "overlord/model/job_spec.h"
#include "overlord/model/mesh.h"
#include "overlord/protocol/state_codec.h"

namespace overlord::protocol {

// Raised with every change of a field list in job_fields.h.
inline constexpr uint32_t kJobFileFormat = 13;

struct JobFile {
  model::JobSpec spec;
  model::DeliverySpec delivery;
  model::Mesh mesh;
  model::RuntimeOptions runtime;
  uint32_t attempt = 1;
  std::vector<Rank> ranks;                  // served by this process, ascending
  std::vector<std::string> index_paths;     // by source
  std::string state;                        // encode_resume_state; empty: the stream's start
  std::vector<std::string> worker_command;  // for Hugging Face tokenizers
  std::string journal_path;                 // a folder; empty: in memory

  OVERLORD_FIELDS(spec, delivery, mesh, runtime, attempt, ranks, index_paths, state, worker_command,
                  journal_path)
};

std::string encode_job_file(const JobFile& job);
// kBadData: truncated, damaged or senseless; kVersionMismatch: written by another version, naming
// both.
Result<JobFile> decode_job_file(std::string_view bytes);

}  // namespace overlord::protocol
