#include "overlord/columnar/source_files.h"

#include <algorithm>

#include "overlord/columnar/megatron_reader.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {

using runtime::quote;

Result<std::vector<std::string>> resolve_files(runtime::Storage& storage,
                                               const model::Source& source) {
  const std::string where = "source " + quote(source.name);
  std::vector<std::string> uris;
  for (const std::string& listed : source.files) {
    if (listed.find_first_of("*?") == std::string::npos) {
      uris.push_back(listed);
      continue;
    }
    auto matches = storage.list(listed);
    if (!matches.ok()) return matches.status().with_context(where);
    uris.insert(uris.end(), matches->begin(), matches->end());
  }
  if (uris.empty()) return invalid_argument(where + " lists no files");
  if (source.format == model::Format::kMegatron) {
    for (std::string& uri : uris) {
      auto bin = megatron_bin_uri(uri);
      if (!bin.ok()) return bin.status().with_context(where);
      uri = std::move(*bin);
    }
  }
  std::sort(uris.begin(), uris.end());
  const auto twice = std::adjacent_find(uris.begin(), uris.end());
  if (twice != uris.end() && !source.allow_duplicates) {
    return invalid_argument(where + " lists shard " + quote(*twice) +
                            " twice; list it once, or set allow_duplicates: true");
  }
  return uris;
}

}  // namespace overlord::columnar
