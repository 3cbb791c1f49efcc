// Indexing one source over local files, with the tokenizer processes it may need. Blocks the
// caller.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/columnar/index/source_index.h"
#include "overlord/model/source.h"
#include "overlord/runtime/seams.h"

namespace overlord::node {

// Builds or refreshes the index at `path`. Lengths that it has are kept: what changed since is
// counted, too. Shards may be taken over from `others` (see columnar::build_index), lengths
// of all of them where there is no index yet and one of the others is of the same files.
Status index_source(const model::Source& source, const std::string& path,
                    const columnar::IndexOptions& options, std::vector<std::string> others,
                    const std::vector<std::string>& worker_command,
                    columnar::IndexProgress* progress, const runtime::CancelToken& cancel);

// What the name of a source's index has beside the source's (see columnar::index_key).
std::string index_key(const model::Source& source, const std::vector<std::string>& patterns);

// The blobs of one row by media field, read from local files through the index at `path`.
Result<std::vector<std::vector<std::string>>> read_row_media(const model::Source& source,
                                                             const std::string& path, uint64_t row);

// What becomes of a media field of a kind, with the transform in its full form and the codecs of
// this build, without its tokens. Refuses a transform that cannot run, or whose outcome cannot
// travel, and what this build has no codec for. `places`: where its blobs come from.
Result<model::MediaUse> media_use(std::string_view kind, const std::string& transform,
                                  std::span<const std::string> places);

// All of a file or object, which has at most `most_bytes`.
Result<std::string> read_file(const std::string& uri, uint64_t most_bytes);

// The patterns that one with braces stands for (storage/glob.h).
Result<std::vector<std::string>> expand_braces(const std::string& pattern);

// A glob or a plain path as sorted URIs.
Result<std::vector<std::string>> list_files(const std::string& pattern);

// Whatever serves a URI, for reading a little of what lies there.
Result<std::unique_ptr<runtime::Storage>> open_files_of(const std::string& uri);

}  // namespace overlord::node
