// Small files that a node leaves in its directory for whoever comes after it: whole or not at all,
// readable by this user alone, with a checksum.
#pragma once

#include <string>

#include "overlord/base/status.h"

namespace overlord::node {

Status write_directory_file(const std::string& directory, const std::string& name,
                            const std::string& bytes);
// kNotFound: there is none; kBadData: not what was written.
Result<std::string> read_directory_file(const std::string& directory, const std::string& name);

}  // namespace overlord::node
