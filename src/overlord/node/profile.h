// SourceProfile: what a source cost in one run, kept as a small JSON file beside its index. The
// automatic partitioner will read it; until then a person does.
#pragma once

#include <cstdint>
#include <string>

#include "overlord/roles/loader/probe.h"

namespace overlord::node {

struct SourceProfile {
  uint64_t rows_posted = 0, documents = 0, blocks_read = 0, read_bytes = 0, read_wait_ns = 0,
           decode_ns = 0, tokenise_ns = 0, media_ns = 0, sent_bytes = 0, buffer_bytes = 0,
           file_state_bytes = 0, loaders = 0;
};

void add_costs(const loader::LoaderProbe& probe, SourceProfile* profile);
// Best effort: a profile that cannot be written never fails a run.
void write_profile(const std::string& path, const std::string& source,
                   const SourceProfile& profile);

}  // namespace overlord::node
