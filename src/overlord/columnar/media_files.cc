#include "overlord/columnar/media_files.h"

#include <algorithm>

#include "overlord/runtime/quote.h"

namespace overlord::columnar {

Result<std::string> beside_shard(const std::string& shard_uri, std::string_view path) {
  const auto refuse = [&](const char* why) {
    return bad_data("path " + runtime::quote(path, 200) + " " + why +
                    "; it must be relative to the directory of its shard");
  };
  if (path.empty()) return refuse("is empty");
  if (path.front() == '/' || path.find("://") != std::string_view::npos) {
    return refuse("is absolute");
  }
  // A backslash or a glob letter would mean something else to some store.
  const auto odd = [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == '\x7f' || c == '\\';
  };
  if (std::any_of(path.begin(), path.end(), odd)) return refuse("has a byte no file name has");
  for (size_t at = 0; at <= path.size();) {
    const size_t slash = std::min(path.find('/', at), path.size());
    const std::string_view part = path.substr(at, slash - at);
    if (part.empty() || part == "." || part == "..") {
      return refuse(part == ".." ? "leads out of it" : "has an empty part");
    }
    at = slash + 1;
  }
  return shard_uri.substr(0, shard_uri.rfind('/') + 1) + std::string(path);
}

}  // namespace overlord::columnar
