#include "overlord/columnar/formats/mds/mds_files.h"

#include <simdjson.h>

#include <optional>

#include "overlord/columnar/media_files.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {
namespace {

namespace dom = simdjson::dom;
using runtime::quote;

constexpr std::string_view kIndexName = "index.json";
constexpr uint64_t kMostIndexBytes = 512 << 20;
constexpr int64_t kFolderVersion = 2;

bool names_a_shard(const std::string& uri) {
  for (const char* suffix : {".mds", ".mds.gz", ".mds.zst", ".mds.zstd"}) {
    if (uri.ends_with(suffix)) return true;
  }
  return false;
}

class MdsFolder {
 public:
  MdsFolder(runtime::Storage& storage, std::string uri) : storage_(storage), uri_(std::move(uri)) {}

  Result<std::vector<std::string>> shards() {
    OVERLORD_TRY(const dom::object index, read());
    int64_t version = 0;
    if (index["version"].get(version) || version != kFolderVersion) {
      return wrong("says it is of version " + std::to_string(version) + ", and 2 is known");
    }
    dom::array listed;
    if (index["shards"].get_array().get(listed)) return wrong("lists no `shards`");
    std::vector<std::string> uris;
    for (const dom::element shard : listed) {
      OVERLORD_TRY(std::string uri, shard_uri(shard, uris.size()));
      uris.push_back(std::move(uri));
    }
    if (uris.empty()) return invalid_argument(quote(uri_) + " lists no shards: it is empty");
    return uris;
  }

 private:
  Status wrong(const std::string& what) const { return bad_data(quote(uri_) + " " + what); }

  Result<dom::object> read() {
    const auto info = storage_.stat(uri_);
    if (!info.ok()) {
      if (info.status().code() != Code::kNotFound) return info.status();
      return not_found("no " + quote(uri_) +
                       ", which a folder of MDS shards has; list the folder that has it, or the "
                       "shards themselves (*.mds)");
    }
    const uint64_t size = info->fingerprint.size_bytes;
    if (size > kMostIndexBytes) return wrong("is too long to be the index of MDS shards");
    runtime::Bytes bytes;
    if (size > 0) {
      OVERLORD_TRY(bytes, storage_.read_blocking({uri_, 0, size, info->fingerprint}));
    }
    dom::object object;
    const auto error =
        parser_.parse(simdjson::padded_string(bytes.data, bytes.size)).get_object().get(object);
    if (error) return wrong(std::string("is no JSON object: ") + simdjson::error_message(error));
    return object;
  }

  // The file of an entry ("raw_data", "zip_data"); nothing: it has none.
  Result<std::optional<std::string>> file_of(const dom::element& shard, const char* key,
                                             const std::string& which) {
    dom::element data;
    if (shard[key].get(data) || data.is_null()) return std::optional<std::string>();
    std::string_view name;
    if (data["basename"].get(name)) return wrong(which + " has a `" + key + "` without a name");
    auto uri = beside_shard(uri_, name);
    if (!uri.ok()) return wrong(which + ": " + uri.status().message());
    return std::optional<std::string>(std::move(*uri));
  }

  Result<std::string> shard_uri(const dom::element& shard, size_t number) {
    const std::string which = "shard " + std::to_string(number);
    std::string_view format, compression;
    if (shard["format"].get(format)) return wrong(which + " has no `format`");
    if (format != "mds") {
      return invalid_argument(quote(uri_) + " lists " + which + " of format " + quote(format) +
                              ", and MDS alone is read; write it with MDSWriter");
    }
    OVERLORD_TRY(const auto raw, file_of(shard, "raw_data", which));
    OVERLORD_TRY(const auto zip, file_of(shard, "zip_data", which));
    if (!zip) {
      if (!raw) return wrong(which + " names no file");
      return *raw;
    }
    if (raw && !has_compressed(*zip)) return *raw;
    if (!shard["compression"].get(compression)) {
      const std::string_view family = compression.substr(0, compression.find(':'));
      if (family != "zstd" && family != "gz") {
        return invalid_argument(quote(uri_) + " lists " + which + " compressed with " +
                                quote(compression) +
                                ", and zstd and gz are read; decompress the shards, or write them "
                                "with one of these");
      }
    }
    return *zip;
  }

  // Whoever decompressed a folder decompressed all of it, so one answer is for all.
  bool has_compressed(const std::string& zip) {
    if (!compressed_) compressed_ = storage_.stat(zip).status().code() != Code::kNotFound;
    return *compressed_;
  }

  runtime::Storage& storage_;
  const std::string uri_;  // of the index
  dom::parser parser_;
  std::optional<bool> compressed_;
};

}  // namespace

Result<std::vector<std::string>> expand_mds_folder(runtime::Storage& storage,
                                                   const std::string& uri) {
  if (names_a_shard(uri)) return std::vector<std::string>{uri};
  const bool is_index = uri.ends_with(kIndexName);
  const std::string folder = uri.substr(0, uri.find_last_not_of('/') + 1);
  return MdsFolder(storage, is_index ? uri : folder + "/" + std::string(kIndexName)).shards();
}

}  // namespace overlord::columnar
