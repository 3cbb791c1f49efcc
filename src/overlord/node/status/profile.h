// SourceProfile: what a source cost in one run, by stage, kept as a small JSON file beside its
// index. The automatic partitioner will read it; `overlord inspect` shows it to people.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "overlord/node/engine/engine.h"

namespace overlord::node {

struct StageProfile {
  uint64_t ns = 0, in_bytes = 0, out_bytes = 0, peak_bytes = 0;

  OVERLORD_FIELDS(ns, in_bytes, out_bytes, peak_bytes)
};

// In the order in which rows pass them. `read` is time waited for storage, all others are time of a
// CPU; that of `send` is writing documents for other processes. The memory of `read` is what is not
// decoded yet, of `decode` the blocks that are kept, of `tokenise` the processes that tokenise or
// run users' Python, of `send` what constructors have not let go of, of `unpack` what they have
// unpacked for steps that are not laid out.
struct StageProfiles {
  StageProfile read = {}, decode = {}, python = {}, tokenise = {}, media = {}, send = {},
               unpack = {};

  OVERLORD_FIELDS(read, decode, python, tokenise, media, send, unpack)
};

struct SourceProfile {
  uint64_t loaders = 0, rows_posted = 0, documents = 0, tokens = 0, blocks_read = 0, cache_hits = 0,
           bad_rows = 0, media_blobs = 0, unpacked_blobs = 0, file_state_bytes = 0;
  StageProfiles stages;

  OVERLORD_FIELDS(loaders, rows_posted, documents, tokens, blocks_read, cache_hits, bad_rows,
                  media_blobs, unpacked_blobs, file_state_bytes, stages)
};

using SourceProfiles = std::map<std::string, SourceProfile>;

// Adds what one process has measured, beside others that live at the same time.
void add_costs(const EngineStatus& status, SourceProfiles* profiles);

// Profiles of a run out of what its processes tell again and again. One that is started anew counts
// from 0: what the one before it had done stays counted.
class ProfileBook {
 public:
  void told(const std::string& process, EngineStatus status) { told_[process] = std::move(status); }
  void ended(const std::string& process);
  SourceProfiles profiles() const;

 private:
  std::map<std::string, EngineStatus> told_;  // newest, of living processes
  SourceProfiles past_;
};

struct ProfiledRun {
  std::string engine;  // "embedded" or "processes"
  std::string config;  // digest
  int64_t elapsed_ns = 0;
};

// Where the profile of a source lies. Sub-sources share an index, and each costs what it costs.
std::string profile_path(const std::string& index_path, const std::string& source);
// Whole files take the place of whole files, so that a reader never sees half of one, nor a mixture
// of two runs. A run that tells nothing, or much less than one of the same config that is there
// already, leaves it. Best effort: a profile that cannot be written never fails a run.
void write_profile(const std::string& path, const std::string& source, const SourceProfile& profile,
                   const ProfiledRun& run);

}  // namespace overlord::node
