#include "overlord/columnar/index/source_files.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "overlord/columnar/formats/arrow/saved_dataset.h"
#include "overlord/columnar/formats/folder/folder_reader.h"
#include "overlord/columnar/formats/mds/mds_files.h"
#include "overlord/columnar/formats/megatron/megatron_files.h"
#include "overlord/columnar/formats/rows/row_numbers.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {

using runtime::quote;

Result<runtime::FileInfo> stat_shard(runtime::Storage& storage, const model::Source& source,
                                     const std::string& uri) {
  if (source.format == model::Format::kFolder) return stat_folder(storage, source, uri);
  if (source.format == model::Format::kRows) return stat_rows(uri);
  return storage.stat(uri);
}

Result<std::vector<std::string>> resolve_files(runtime::Storage& storage,
                                               const model::Source& source) {
  const std::string where = "source " + quote(source.name);
  std::vector<std::string> uris;
  for (const std::string& listed : source.files) {
    if (source.format == model::Format::kRows ||
        listed.find_first_of("*?") == std::string::npos) {
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
  const bool mds = source.format == model::Format::kMds;
  if (mds || source.format == model::Format::kArrow) {  // a folder's shards stay in its order
    std::vector<std::string> expanded;
    for (const std::string& uri : uris) {
      auto shards = mds ? expand_mds_folder(storage, uri) : expand_saved_dataset(storage, uri);
      if (!shards.ok()) return shards.status().with_context(where);
      expanded.insert(expanded.end(), shards->begin(), shards->end());
    }
    uris = std::move(expanded);
  }
  if (source.format == model::Format::kFolder) {
    std::vector<std::string> folders;
    for (const std::string& uri : uris) {
      auto below = expand_folders(storage, source, uri);
      if (!below.ok()) return below.status().with_context(where);
      folders.insert(folders.end(), below->begin(), below->end());
    }
    uris = std::move(folders);
  }
  std::unordered_set<std::string_view> seen;
  for (const std::string& uri : uris) {
    if (seen.insert(uri).second || source.allow_duplicates) continue;
    return invalid_argument(where + " lists shard " + quote(uri) +
                            " twice; list it once, or set allow_duplicates: true");
  }
  return uris;
}

}  // namespace overlord::columnar
