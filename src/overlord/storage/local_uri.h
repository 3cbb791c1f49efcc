// Names of local files: plain paths and file:// URIs, and what is refused before anything is
// opened.
#pragma once

#include <string>
#include <string_view>

#include "overlord/base/status.h"

namespace overlord::storage {

// The path a URI names. Refuses user info (the message shows no password), schemes other than
// file, hosts other than localhost, broken percent escapes and NUL bytes.
Result<std::string> local_path(std::string_view uri);

// The URI of `path` in the style of `model_uri`: file:// when that is one, else the path itself.
std::string local_uri_like(std::string_view model_uri, const std::string& path);

// `uri` without user info, escaped: what messages may show of a URI that was refused.
std::string redacted(std::string_view uri);

}  // namespace overlord::storage
