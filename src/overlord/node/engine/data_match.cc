#include "overlord/node/engine/data_match.h"

#include <algorithm>

#include "overlord/columnar/index/index_file.h"
#include "overlord/columnar/index/index_layout.h"
#include "overlord/columnar/index/index_naming.h"
#include "overlord/runtime/quote.h"

namespace overlord::node {
namespace {

// A state keeps the low half.
bool same(const Digest& a, const Digest& b) { return a.low == b.low; }

std::string advice_for(const model::Source& source, const std::string& path, bool counted) {
  if (!counted) {
    return "; if it was saved with lengths in the index, which this one has not, run `overlord "
           "index --lengths` and load it again";
  }
  if (columnar::lengths_change_nothing(source)) return {};
  const char* const why = model::is_bare_tokens(source.format)
                              ? "of bare tokens finds token ids that are otherwise met late"
                              : "of what a transform answers keeps its failures";
  return "; its index was made with --lengths, and a count " + std::string(why) +
         ": if the state was saved before that, move " + runtime::quote(path) +
         " away, run `overlord index` without --lengths and load it again";
}

}  // namespace

std::map<std::string, std::string> match_data(const host::OpenJob& job,
                                              const std::vector<std::string>& index_paths,
                                              protocol::ResumeState* saved) {
  std::map<std::string, std::string> changed;
  for (size_t s = 0; s < job.spec.sources.size(); ++s) {
    const model::Source& source = job.spec.sources[s];
    const auto& names = saved->source_names;
    const auto found = std::find(names.begin(), names.end(), source.name);
    if (found == names.end()) continue;
    Digest& digest = saved->source_digests[static_cast<size_t>(found - names.begin())];
    const Digest now = job.manifest.sources[s].digest;
    if (same(digest, now)) continue;
    const auto index = columnar::IndexFile::map(index_paths[s]);
    // One that was replaced meanwhile says nothing of what the job has open.
    if (!index.ok() || (*index)->digest() != now) {
      changed.emplace(source.name, "");
    } else if (same(digest, columnar::layout::older_digest(**index))) {
      digest = now;
    } else {
      const bool counted = (*index)->config().counted;
      changed.emplace(source.name, advice_for(source, index_paths[s], counted));
    }
  }
  return changed;
}

Result<protocol::ResumeState> resume_from(const host::OpenJob& job,
                                          const std::vector<std::string>& index_paths,
                                          protocol::ResumeState saved,
                                          protocol::AllowedChanges allowed) {
  const auto changed = match_data(job, index_paths, &saved);
  auto resumed = host::resume_from(job, saved, allowed);
  if (resumed.ok()) return resumed;
  std::string message = resumed.status().message();
  for (const auto& [source, advice] : changed) {
    if (!advice.empty()) message += "\n  source " + source + advice;
  }
  return Status(resumed.status().code(), std::move(message));
}

}  // namespace overlord::node
