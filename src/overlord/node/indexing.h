// Indexing one source over local files, with the tokenizer processes it may need. Blocks the
// caller.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/columnar/source_index.h"
#include "overlord/model/source.h"
#include "overlord/runtime/seams.h"

namespace overlord::node {

Status index_source(const model::Source& source, const std::string& path,
                    const columnar::IndexOptions& options,
                    const std::vector<std::string>& worker_command,
                    columnar::IndexProgress* progress, const runtime::CancelToken& cancel);

// The blobs of one row by media field, read from local files through the index at `path`.
Result<std::vector<std::vector<std::string>>> read_row_media(const model::Source& source,
                                                             const std::string& path, uint64_t row);

// What becomes of a media field of a kind, with the transform in its full form and the codecs of
// this build, without its tokens. Refuses a transform that cannot run, or whose outcome cannot
// travel, and what this build has no codec for. `places`: where its blobs come from.
Result<model::MediaUse> media_use(std::string_view kind, const std::string& transform,
                                  std::span<const std::string> places);

// A glob or a plain path as sorted URIs.
Result<std::vector<std::string>> list_files(const std::string& pattern);

}  // namespace overlord::node
