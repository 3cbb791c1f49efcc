#include "overlord/columnar/formats/arrow/saved_dataset.h"

#include <simdjson.h>

#include <optional>

#include "overlord/columnar/formats/jsonl/json_fields.h"
#include "overlord/columnar/media_files.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {
namespace {

namespace dom = simdjson::dom;
using runtime::quote;

constexpr uint64_t kMaxStateBytes = 64 << 20;

bool names_a_shard(const std::string& uri) {
  for (const char* suffix : {".arrow", ".feather", ".ipc"}) {
    if (uri.ends_with(suffix)) return true;
  }
  return false;
}

// A small JSON object of a dataset; nullopt: there is no such file.
Result<std::optional<dom::object>> read_object(runtime::Storage& storage, const std::string& uri,
                                               dom::parser* parser) {
  const auto info = storage.stat(uri);
  if (!info.ok()) {
    if (info.status().code() == Code::kNotFound) return std::optional<dom::object>();
    return info.status();
  }
  const uint64_t size = info->fingerprint.size_bytes;
  if (size > kMaxStateBytes) return bad_data(quote(uri) + " is too long to be what it should be");
  runtime::Bytes bytes;
  if (size > 0) {
    OVERLORD_TRY(bytes, storage.read_blocking({uri, 0, size, info->fingerprint}));
  }
  dom::object object;
  const auto error =
      parser->parse(simdjson::padded_string(bytes.data, bytes.size)).get_object().get(object);
  if (error) return bad_data(quote(uri) + " is no JSON object: " + simdjson::error_message(error));
  return std::optional<dom::object>(object);
}

Result<std::vector<std::string>> listed_files(const std::string& uri, const dom::object& state) {
  for (const char* key : {"_indices_files", "_indices_data_files"}) {
    dom::array indices;
    if (state[key].get_array().get(indices) == simdjson::SUCCESS && indices.size() > 0) {
      return invalid_argument(quote(uri) +
                              " is a selection of rows that were saved elsewhere; call "
                              "flatten_indices() on the dataset and save it again");
    }
  }
  dom::array files;
  if (state["_data_files"].get_array().get(files) != simdjson::SUCCESS) {
    return bad_data(quote(uri) + " lists no `_data_files`");
  }
  std::vector<std::string> uris;
  for (const dom::element file : files) {
    std::string_view name;
    if (file["filename"].get_string().get(name) != simdjson::SUCCESS) {
      return bad_data(quote(uri) + " has an entry without `filename` among its `_data_files`");
    }
    OVERLORD_TRY(std::string shard, beside_shard(uri, name));
    uris.push_back(std::move(shard));
  }
  if (uris.empty()) return invalid_argument(quote(uri) + " lists no files: the dataset is empty");
  return uris;
}

Status several_splits(const std::string& uri, const dom::object& dict) {
  std::string splits;
  dom::array names;
  if (dict["splits"].get_array().get(names) == simdjson::SUCCESS) {
    for (const dom::element split : names) {
      std::string_view name;
      if (split.get_string().get(name) != simdjson::SUCCESS) continue;
      splits += (splits.empty() ? "" : ", ") + quote(name, 60);
    }
  }
  return invalid_argument(quote(uri) + " is a dataset of several splits (" + splits +
                          "); name one of these directories in it");
}

}  // namespace

Result<std::vector<std::string>> expand_saved_dataset(runtime::Storage& storage,
                                                      const std::string& uri) {
  if (names_a_shard(uri)) return std::vector<std::string>{uri};
  const std::string directory = uri.substr(0, uri.find_last_not_of('/') + 1) + "/";
  dom::parser parser;
  const std::string state_uri = directory + "state.json";
  OVERLORD_TRY(const auto state, read_object(storage, state_uri, &parser));
  if (state) return listed_files(state_uri, *state);
  OVERLORD_TRY(const auto dict, read_object(storage, directory + "dataset_dict.json", &parser));
  if (dict) return several_splits(directory, *dict);
  if (uri.ends_with('/')) {
    return not_found(quote(uri) + " is no directory that save_to_disk wrote: it has neither " +
                     "state.json nor dataset_dict.json; other folders say what they are with "
                     "`format: mds` or `format: energon`");
  }
  return std::vector<std::string>{uri};
}

}  // namespace overlord::columnar
