// s3://bucket/key: names of objects as people write them. A key is taken as it stands, without
// escapes, as other tools take it.
#pragma once

#include <string>
#include <string_view>

#include "overlord/base/status.h"
#include "overlord/store/object_store.h"

namespace overlord::store {

inline constexpr std::string_view kS3Scheme = "s3://";

inline bool is_s3_uri(std::string_view uri) { return uri.starts_with(kS3Scheme); }

// Refuses what names no object: no bucket, a bucket that no store could have, no key, a NUL byte, a
// user name or password (which the message does not show).
Result<ObjectName> parse_s3_uri(std::string_view uri);

// All but A-Z a-z 0-9 - . _ ~ as %XX, as signatures want it; '/' stays where `keep_slash`.
std::string percent_encoded(std::string_view text, bool keep_slash);

}  // namespace overlord::store
