#include "overlord/protocol/job_codec.h"

#include <algorithm>

#include "overlord/protocol/fields/job_fields.h"
#include "overlord/protocol/spec_codec.h"

namespace overlord::protocol {
namespace {

constexpr uint32_t kJobMagic = 0x424a564f;  // "OVJB"
constexpr size_t kHeadBytes = 16;

// What digests and lookups by source or rank rely on; whether the job can run is for its engine.
Status check_job(const JobFile& job) {
  const size_t sources = job.spec.sources.size();
  if (sources == 0) return bad_data("job file: it has no source");
  if (job.spec.mixture.max_passes.size() > sources) {
    return bad_data("job file: max_passes of more sources than there are");
  }
  if (job.index_paths.size() != sources) {
    return bad_data("job file: one index path for each of " + std::to_string(sources) +
                    " sources, got " + std::to_string(job.index_paths.size()));
  }
  for (size_t i = 0; i < job.ranks.size(); ++i) {
    if (job.ranks[i] >= job.mesh.world_size() || (i > 0 && job.ranks[i - 1] >= job.ranks[i])) {
      return bad_data("job file: ranks ascend and are below the mesh's " +
                      std::to_string(job.mesh.world_size()) + ", got " +
                      std::to_string(job.ranks[i]));
    }
  }
  return {};
}

}  // namespace

std::string encode_job_file(const JobFile& job) {
  ByteWriter body;
  FieldWriter fields(&body);
  fields(job, config_digest(job.spec));
  ByteWriter writer;
  writer.u32(kJobMagic);
  writer.u32(kJobFileFormat);
  writer.u64(hash64(body.bytes().data(), body.size()));
  writer.raw(body.bytes().data(), body.size());
  return writer.take();
}

Result<JobFile> decode_job_file(std::string_view bytes) {
  ByteReader head(bytes);
  const uint32_t magic = head.u32();
  const uint32_t format = head.u32();
  const uint64_t checksum = head.u64();
  if (head.failed() || magic != kJobMagic) return bad_data("job file: not an Overlord job");
  if (format != kJobFileFormat) {
    return Status(Code::kVersionMismatch,
                  "job file: format " + std::to_string(format) + ", this build reads " +
                      std::to_string(kJobFileFormat) + "; run the same version everywhere");
  }
  const std::string_view body = bytes.substr(kHeadBytes);
  if (hash64(body.data(), body.size()) != checksum) {
    return bad_data("job file: checksum differs, the file is truncated or was edited");
  }
  ByteReader reader(body);
  FieldReader fields(&reader);
  JobFile job;
  Digest config;
  fields(job, config);
  OVERLORD_RETURN_IF_ERROR(fields.status("job file"));
  OVERLORD_RETURN_IF_ERROR(check_job(job));
  const Digest now = config_digest(job.spec);
  if (now != config) {
    return Status(Code::kVersionMismatch, "job file: its config has digest " + config.hex() +
                                              ", here " + now.hex() +
                                              "; run the same version everywhere");
  }
  return job;
}

}  // namespace overlord::protocol
