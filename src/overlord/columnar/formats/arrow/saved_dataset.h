// Directories that the datasets library writes (save_to_disk): which Arrow shards one lists.
#pragma once

#include <string>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/runtime/seams.h"

namespace overlord::columnar {

// The shards of `uri` in their order where it is such a directory; else `uri` alone. A directory of
// several splits, or of a selection whose rows lie elsewhere, is refused with what to do.
Result<std::vector<std::string>> expand_saved_dataset(runtime::Storage& storage,
                                                      const std::string& uri);

}  // namespace overlord::columnar
