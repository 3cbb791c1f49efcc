// Folders of MDS, as MosaicML's streaming writes them: an index.json that lists the shards beside
// it or in folders below.
#pragma once

#include <string>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/runtime/seams.h"

namespace overlord::columnar {

// The shards of a folder or an index.json, in its order; a shard stands for itself. Of one that is
// there compressed and not, the compressed one counts, as index.json tells.
Result<std::vector<std::string>> expand_mds_folder(runtime::Storage& storage,
                                                   const std::string& uri);

}  // namespace overlord::columnar
