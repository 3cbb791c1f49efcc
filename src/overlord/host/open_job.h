// OpenJob: a job whose manifest is frozen and whose sources can be read. Immutable, shared by every
// engine that runs it.
#pragma once

#include <memory>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/model/job_spec.h"
#include "overlord/model/manifest.h"
#include "overlord/model/mesh.h"
#include "overlord/protocol/state_codec.h"
#include "overlord/roles/loader/role.h"

namespace overlord::host {

struct OpenJob {
  model::JobSpec spec;
  model::DeliverySpec delivery;
  model::Mesh mesh;
  model::Manifest manifest;
  std::vector<std::shared_ptr<const loader::OpenSource>> sources;  // in spec order
  std::vector<model::MediaLayout> media;  // what the stream carries beside tokens, by name
  Digest config;
  std::vector<protocol::SectionDigest> sections;
};

// Checks the spec against the mesh, fills manifest and digests. `sources` in spec order.
Result<std::shared_ptr<const OpenJob>> open_job(
    model::JobSpec spec, model::DeliverySpec delivery, model::Mesh mesh,
    std::vector<std::shared_ptr<const loader::OpenSource>> sources);

// Everything about a spec that the config layer promises; an engine refuses to start without it.
Status check_spec(const model::JobSpec& spec);

// Whether these are all ranks of the job, but for some that get no payload because the trainer's
// broadcasts or other stages serve them: one planner then hears everybody who has to read.
bool all_readers(const OpenJob& job, const std::vector<Rank>& ranks);

// The resume state before step 0.
protocol::ResumeState start_state(const OpenJob& job);
// A saved state in the terms of this job (see protocol::adapt_state).
Result<protocol::ResumeState> resume_from(const OpenJob& job, const protocol::ResumeState& saved,
                                          protocol::AllowedChanges allowed);

}  // namespace overlord::host
