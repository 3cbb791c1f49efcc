#include "overlord/node/profile.h"

#include <cstdio>
#include <fstream>

namespace overlord::node {

void add_costs(const loader::LoaderProbe& probe, SourceProfile* profile) {
  profile->rows_posted += probe.rows_posted;
  profile->documents += probe.documents;
  profile->blocks_read += probe.blocks_read;
  profile->read_bytes += probe.read_bytes;
  profile->read_wait_ns += probe.read_wait_ns;
  profile->decode_ns += probe.decode_ns;
  profile->tokenise_ns += probe.tokenise_ns;
  profile->media_ns += probe.media_ns;
  profile->sent_bytes += probe.sent_bytes;
  profile->buffer_bytes += probe.buffer_bytes;
  profile->file_state_bytes += probe.file_state_bytes;
  ++profile->loaders;
}

void write_profile(const std::string& path, const std::string& source,
                   const SourceProfile& profile) {
  if (profile.blocks_read == 0) return;  // nothing was measured: keep what an earlier run found
  const std::string temporary = path + ".new";
  {
    std::ofstream out(temporary);
    if (!out) return;
    out << "{\"format\": 2, \"source\": \"" << source << "\", \"loaders\": " << profile.loaders
        << ", \"rows_posted\": " << profile.rows_posted << ", \"documents\": " << profile.documents
        << ", \"blocks_read\": " << profile.blocks_read
        << ", \"read_bytes\": " << profile.read_bytes
        << ", \"read_wait_ns\": " << profile.read_wait_ns
        << ", \"decode_ns\": " << profile.decode_ns << ", \"tokenise_ns\": " << profile.tokenise_ns
        << ", \"media_ns\": " << profile.media_ns << ", \"sent_bytes\": " << profile.sent_bytes
        << ", \"buffer_bytes\": " << profile.buffer_bytes
        << ", \"file_state_bytes\": " << profile.file_state_bytes << "}\n";
    if (!out) return;
  }
  std::rename(temporary.c_str(), path.c_str());
}

}  // namespace overlord::node
