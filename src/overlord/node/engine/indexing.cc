#include "overlord/node/engine/indexing.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "overlord/columnar/index/index_file.h"
#include "overlord/columnar/index/index_naming.h"
#include "overlord/columnar/media.h"
#include "overlord/media/codecs.h"
#include "overlord/media/field_chain.h"
#include "overlord/node/functions/encoders.h"
#include "overlord/roles/loader/open_media.h"
#include "overlord/runtime/quote.h"
#include "overlord/runtime/thread_executor.h"
#include "overlord/storage/glob.h"
#include "overlord/storage/open_storage.h"

namespace overlord::node {
namespace {

constexpr uint64_t kPoolBytes = uint64_t{64} << 20;
constexpr uint32_t kOpenFiles = 64;

bool is_counted(const std::string& path) {
  const auto file = columnar::IndexFile::map(path);
  return file.ok() && (*file)->config().counted;
}

// Whether lengths are there already, and stay: in the index itself, or in another of the same
// files, which then comes first among the others.
bool has_lengths(const model::Source& source, const std::string& path, runtime::Storage& storage,
                 std::vector<std::string>* others) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) {
    return is_counted(path) && columnar::SourceIndex::open(path, source).ok();
  }
  for (std::string& other : *others) {
    if (!is_counted(other)) continue;
    const auto index = columnar::SourceIndex::open(other, source);
    if (!index.ok() || !(*index)->verify(storage).ok()) continue;
    std::swap(other, others->front());
    return true;
  }
  return false;
}

}  // namespace

Status index_source(const model::Source& source, const std::string& path,
                    const columnar::IndexOptions& options, std::vector<std::string> others,
                    const std::vector<std::string>& worker_command,
                    columnar::IndexProgress* progress, const runtime::CancelToken& cancel) {
  runtime::ThreadExecutor executor(1, "ol-index");
  OVERLORD_RETURN_IF_ERROR(executor.status());
  Encoders encoders(executor, worker_command, options.threads);
  OVERLORD_TRY(const auto storage,
               storage::open_storage(model::places_of(source),
                                     {runtime::BufferPool::make(kPoolBytes), 1, kOpenFiles}));
  runtime::TextEncoder* encoder = nullptr;
  columnar::IndexOptions building = options;
  building.probe = loader::media_probe(source);
  building.lengths = options.lengths || has_lengths(source, path, *storage, &others);
  if (building.lengths) {
    OVERLORD_TRY(encoder, encoders.get(source));
  }
  const Status built =
      columnar::build_index(*storage, encoder, source, path, others, building, progress, cancel);
  if (built.code() != Code::kBadData || building.lengths == options.lengths) return built;
  return {built.code(), built.message() +
                            "; its index has lengths, which are kept and counted on: " +
                            "to go on without them move " + runtime::quote(path) + " away"};
}

std::string index_key(const model::Source& source, const std::vector<std::string>& patterns) {
  columnar::IndexOptions options;
  options.probe = loader::media_probe(source);
  return columnar::index_key(source, options, patterns);
}

Result<std::vector<std::vector<std::string>>> read_row_media(const model::Source& source,
                                                             const std::string& path,
                                                             uint64_t row) {
  OVERLORD_TRY(const auto index, columnar::SourceIndex::open(path, source));
  const model::SourceManifest& manifest = index->manifest();
  if (row >= manifest.rows) {
    return Status(Code::kOutOfRange, "row " + std::to_string(row) + " of source '" + source.name +
                                         "' with " + std::to_string(manifest.rows) + " rows");
  }
  const auto after = std::upper_bound(
      manifest.blocks.begin(), manifest.blocks.end(), row,
      [](uint64_t value, const model::BlockEntry& block) { return value < block.first_row; });
  const auto block = static_cast<uint32_t>(after - manifest.blocks.begin()) - 1;
  columnar::BlockRequest request;
  request.block = block;
  request.rows = {static_cast<uint32_t>(row - manifest.blocks[block].first_row)};
  OVERLORD_TRY(const auto storage,
               storage::open_storage(model::places_of(source),
                                     {runtime::BufferPool::make(0), 1, kOpenFiles}));
  OVERLORD_TRY(const auto reader, index->reader());
  OVERLORD_TRY(const auto lists, columnar::read_media(*storage, manifest, *reader, request));
  std::vector<std::vector<std::string>> out(source.media.size());
  for (size_t field = 0; field < lists.size(); ++field) {
    for (const runtime::Bytes& blob : lists[field]) out[field].emplace_back(blob.data, blob.size);
  }
  return out;
}

Result<model::MediaUse> media_use(std::string_view kind, const std::string& transform,
                                  std::span<const std::string> places) {
  model::MediaUse use;
  OVERLORD_TRY(use.kind, media::media_kind(kind));
  OVERLORD_RETURN_IF_ERROR(media::require_codecs(use.kind, places));
  OVERLORD_TRY(const auto chain, media::kind_of_media(use.kind).prepare(transform));
  use.transform = chain->text();
  use.decoder = media::codecs_fingerprint(use.kind).hex();
  return use;
}

Result<std::string> read_file(const std::string& uri, uint64_t most_bytes) {
  OVERLORD_TRY(const auto storage,
               storage::open_storage({&uri, 1}, {runtime::BufferPool::make(0), 1, 1}));
  OVERLORD_TRY(const runtime::FileInfo info, storage->stat(uri));
  const uint64_t size = info.fingerprint.size_bytes;
  if (size > most_bytes) {
    return invalid_argument(runtime::quote(uri) + " has " + std::to_string(size) +
                            " bytes, more than the " + std::to_string(most_bytes) +
                            " that such a file may have");
  }
  if (size == 0) return std::string();
  OVERLORD_TRY(const runtime::Bytes bytes,
               storage->read_blocking({uri, 0, size, info.fingerprint}));
  return std::string(bytes.data, bytes.size);
}

Result<std::vector<std::string>> expand_braces(const std::string& pattern) {
  return storage::expand_braces(pattern);
}

Result<std::vector<std::string>> list_files(const std::string& pattern) {
  OVERLORD_TRY(const auto storage, open_files_of(pattern));
  return storage->list(pattern);
}

Result<std::unique_ptr<runtime::Storage>> open_files_of(const std::string& uri) {
  return storage::open_storage({&uri, 1}, {runtime::BufferPool::make(0), 1, kOpenFiles});
}

}  // namespace overlord::node
