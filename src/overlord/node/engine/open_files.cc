#include "overlord/node/engine/open_files.h"

#include "overlord/columnar/encoded_rows.h"
#include "overlord/columnar/index/source_index.h"
#include "overlord/node/functions/encoders.h"

namespace overlord::node {
namespace {

Result<std::shared_ptr<const loader::OpenSource>> open_source(const model::Source& source,
                                                              uint64_t seed,
                                                              const std::string& index_path,
                                                              runtime::Storage& storage) {
  OVERLORD_TRY(auto index, columnar::SourceIndex::open(index_path, source));
  if (source.files_here) OVERLORD_RETURN_IF_ERROR(index->verify(storage));
  auto open = std::make_shared<loader::OpenSource>();
  open->spec = source;
  open->manifest = index->manifest();
  open->bad_rows = index->bad_rows();
  OVERLORD_TRY(open->reader, index->reader());
  OVERLORD_TRY(open->media, loader::OpenMedia::open(source, *index));
  open->seed = seed;
  return std::shared_ptr<const loader::OpenSource>(std::move(open));
}

}  // namespace

Result<std::unique_ptr<runtime::Storage>> open_storage_of(const model::JobSpec& spec,
                                                          storage::StorageOptions options) {
  std::vector<std::string> uris;
  for (const model::Source& source : spec.sources) {
    const std::vector<std::string> places = model::places_of(source);
    uris.insert(uris.end(), places.begin(), places.end());
  }
  return storage::open_storage(uris, std::move(options));
}

Result<std::shared_ptr<const host::OpenJob>> open_files(model::JobSpec spec,
                                                        model::DeliverySpec delivery,
                                                        model::Mesh mesh,
                                                        const std::vector<std::string>& index_paths,
                                                        runtime::Storage& storage) {
  OVERLORD_RETURN_IF_ERROR(host::check_spec(spec));
  if (index_paths.size() != spec.sources.size()) {
    return invalid_argument("index paths: one per source is needed");
  }
  std::vector<std::shared_ptr<const loader::OpenSource>> sources;
  for (size_t s = 0; s < spec.sources.size(); ++s) {
    OVERLORD_TRY(auto source, open_source(spec.sources[s], spec.seed, index_paths[s], storage));
    sources.push_back(std::move(source));
  }
  return host::open_job(std::move(spec), std::move(delivery), std::move(mesh), std::move(sources));
}

Result<columnar::RowBlock> read_block(const loader::OpenSource& source, runtime::Storage& storage,
                                      uint32_t block) {
  const columnar::BlockRequest request{block, {}};
  OVERLORD_TRY(auto ranges, source.reader->ranges(request));
  std::vector<runtime::Bytes> pieces;
  for (const columnar::RangeRequest& range : ranges) {
    const model::ShardEntry& shard = source.manifest.shards[range.shard];
    OVERLORD_TRY(auto bytes, storage.read_blocking(
                                 {shard.uri, range.offset, range.size_bytes, shard.fingerprint}));
    pieces.push_back(std::move(bytes));
  }
  return source.reader->decode(request, pieces);
}

Result<loader::TokenBlockPtr> read_tokens(const loader::OpenSource& source,
                                          runtime::Storage& storage, runtime::TextEncoder* encoder,
                                          uint32_t block) {
  OVERLORD_TRY(auto rows, read_block(source, storage, block));
  if (!rows.is_text) {
    return loader::TokenBlockPtr(
        std::make_shared<const columnar::TokenBlock>(std::move(rows.tokens)));
  }
  OVERLORD_CHECK(encoder != nullptr, "a text source has an encoder");
  std::vector<uint32_t> bytes = columnar::text_bytes(source.spec, rows.text.rows);
  OVERLORD_TRY(auto encoded, encode_blocking(*encoder, std::move(rows.text.rows)));
  columnar::TokenBlock made = columnar::to_token_block(
      source.spec, source.manifest, block, std::move(encoded), std::move(rows.text.bad));
  made.text_bytes = std::move(bytes);
  return loader::TokenBlockPtr(std::make_shared<const columnar::TokenBlock>(std::move(made)));
}

}  // namespace overlord::node
