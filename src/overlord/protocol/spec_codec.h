// Canonical encoding of what decides the stream, and its digests, section by section, so that a
// refused resume can say precisely what differs.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "overlord/base/fields.h"
#include "overlord/base/hash.h"
#include "overlord/model/job_spec.h"

namespace overlord::protocol {

struct SectionDigest {
  std::string name;  // "stream", "mixture", "source:NAME"
  Digest digest;

  friend bool operator==(const SectionDigest&, const SectionDigest&) = default;

  OVERLORD_FIELDS(name, digest)
};

Digest mixture_digest(const model::JobSpec& spec);
std::vector<SectionDigest> section_digests(const model::JobSpec& spec);
// Not a section: it changes places, never contents, so a state goes on under another one from a
// step boundary on, like under another mesh.
Digest strategy_digest(const model::Strategy& strategy);
Digest config_digest(const model::JobSpec& spec);

}  // namespace overlord::protocol
