// From what a source lists to the shards it has: globs expanded, names normalised, sorted, unique.
#pragma once

#include <string>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/model/source.h"
#include "overlord/runtime/seams.h"

namespace overlord::columnar {

Result<std::vector<std::string>> resolve_files(runtime::Storage& storage,
                                               const model::Source& source);

// What a shard, or its companion, is now.
Result<runtime::FileInfo> stat_shard(runtime::Storage& storage, const model::Source& source,
                                     const std::string& uri);

}  // namespace overlord::columnar
