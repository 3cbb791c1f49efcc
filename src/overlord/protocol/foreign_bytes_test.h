// What every decoder of this room promises of bytes from anywhere: a Status or a value whose
// encoding is those very bytes. Shared by the tests and the fuzz targets.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "overlord/base/check.h"
#include "overlord/protocol/fields/job_fields.h"
#include "overlord/protocol/job_codec.h"
#include "overlord/protocol/made_up_messages_test.h"
#include "overlord/protocol/plan_codec.h"
#include "overlord/protocol/wire.h"

namespace overlord::protocol {

// Each gives true when the bytes were taken.
inline bool takes_envelope(std::string_view bytes, const DecodeContext& context) {
  const auto decoded = decode_envelope(bytes, context);
  if (!decoded.ok()) return false;
  OVERLORD_CHECK(encode_envelope(*decoded, {context.regions, std::nullopt}) == bytes,
                 "an envelope has one encoding");
  return true;
}

inline bool takes_plan(std::string_view bytes, const PlanContext& context) {
  const auto decoded = decode_plan(bytes, context);
  if (!decoded.ok()) return false;
  OVERLORD_CHECK(encode_plan(**decoded) == bytes, "a plan has one encoding");
  return true;
}

inline bool takes_views(std::string_view bytes) {
  const auto decoded = decode_views(bytes);
  if (!decoded.ok()) return false;
  OVERLORD_CHECK(encode_views(**decoded) == bytes, "a table of views has one encoding");
  return true;
}

// Behind its checksum, which would hide the rest from a blind search.
inline bool takes_job_body(std::string_view body) {
  ByteWriter writer;
  writer.u32(0x424a564f);
  writer.u32(kJobFileFormat);
  writer.u64(hash64(body.data(), body.size()));
  writer.raw(body.data(), body.size());
  const auto decoded = decode_job_file(writer.bytes());
  if (!decoded.ok()) return false;
  OVERLORD_CHECK(encode_job_file(*decoded) == writer.bytes(), "a job has one encoding");
  return true;
}

// The first byte says which decoder the others are for.
inline bool takes_bytes(std::string_view bytes, MadeUpWorld& world) {
  if (bytes.empty()) return false;
  const std::string_view rest = bytes.substr(1);
  switch (bytes.front() & 3) {
    case 0:
      return takes_envelope(rest, world.context);
    case 1:
      return takes_plan(rest, world.context.plans);
    case 2:
      return takes_views(rest);
    default:
      return takes_job_body(rest);
  }
}

inline JobFile small_job(uint64_t seed) {
  RandomFields random(seed);
  auto job = random.make<JobFile>();
  job.mesh = model::Mesh::make({{"dp", 3}}).value();
  job.ranks = {0, 2};
  job.spec.mixture.max_passes.resize(job.spec.sources.size());
  job.index_paths.resize(job.spec.sources.size());
  return job;
}

// Good inputs of every decoder, each with the byte that chooses it.
inline std::vector<std::string> good_inputs(MadeUpWorld& world, uint64_t seeds) {
  world.shape.microbatches = 2;
  world.shape.microbatch_size = 1;
  std::vector<std::string> inputs;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    for (size_t kind = 0; kind < std::variant_size_v<Message>; ++kind) {
      const EncodeOptions options{world.context.regions, std::nullopt};
      inputs.push_back('\0' + encode_envelope(world.envelope(seed, kind), options));
    }
    inputs.push_back('\1' + encode_plan(*random_plan(seed, world.shape, world.views)));
    inputs.push_back('\2' + encode_views(*world.views));
    inputs.push_back('\3' + encode_job_file(small_job(seed)).substr(16));
  }
  return inputs;
}

}  // namespace overlord::protocol
