// The files of a folder that are rows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/model/source.h"
#include "overlord/runtime/seams.h"

namespace overlord::columnar {

struct FolderFile {
  std::string name;
  size_t field = 0;  // of Source::media
  uint64_t size_bytes = 0;
};

// Sorted by name. `folder` ends with a slash.
Result<std::vector<FolderFile>> folder_files(runtime::Storage& storage, const model::Source& source,
                                             const std::string& folder);

}  // namespace overlord::columnar
