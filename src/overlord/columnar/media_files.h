// Media that lie as files beside their shard: how a path in a row becomes the URI of a file. A row
// must not reach outside of the shard's directory, whatever it says.
#pragma once

#include <string>
#include <string_view>

#include "overlord/base/status.h"

namespace overlord::columnar {

// `path` relative to the directory of `shard_uri`. kBadData says why it is refused: absolute paths,
// URIs, `..`, empty parts, control bytes.
Result<std::string> beside_shard(const std::string& shard_uri, std::string_view path);

}  // namespace overlord::columnar
