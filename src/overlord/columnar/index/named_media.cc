#include "overlord/columnar/index/named_media.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "overlord/columnar/block_reader.h"
#include "overlord/columnar/index/reader_factory.h"
#include "overlord/columnar/named_files.h"

namespace overlord::columnar {
namespace {

// The rows of a block with what they say of their media.
Result<RowBlock> decode_named(const ShardJob& job, const BlockReader& reader, uint32_t block) {
  BlockRequest request;
  request.block = block;
  request.named_media = true;
  OVERLORD_TRY(const std::vector<RangeRequest> ranges, reader.ranges(request));
  std::vector<runtime::Bytes> pieces;
  for (const RangeRequest& range : ranges) {
    OVERLORD_TRY(runtime::Bytes bytes, job.read(job.file, range.offset, range.size_bytes));
    pieces.push_back(std::move(bytes));
  }
  return reader.decode(request, pieces);
}

// A private index of the shard alone, in which no row has media yet.
Result<std::shared_ptr<const IndexFile>> without_media(IndexConfig config, const ShardPart& part) {
  config.metadata_columns.clear();
  config.media.clear();
  config.max_media_bytes = 0;
  config.probe_version.clear();
  config.probe_values = 0;
  OVERLORD_TRY(std::string bytes, encode_index(config, {part}, false));
  return IndexFile::from_bytes(std::move(bytes), part.entry.uri);
}

}  // namespace

Status note_named_media(const ShardJob& job, const IndexConfig& config, ShardPart* part) {
  if (part->entry.rows == 0) return {};
  OVERLORD_TRY(const std::shared_ptr<const IndexFile> file, without_media(config, *part));
  OVERLORD_TRY(const std::unique_ptr<BlockReader> reader, make_reader(file, *job.source));
  NamedFiles named(job, part);
  for (uint32_t block = 0; block < file->blocks().size(); ++block) {
    OVERLORD_RETURN_IF_ERROR(job.check_cancelled());
    OVERLORD_TRY(RowBlock rows, decode_named(job, *reader, block));
    OVERLORD_RETURN_IF_ERROR(
        named.add(file->blocks()[block].first_row, file->block_extra(block), &rows.named));
  }
  named.finish();
  return {};
}

}  // namespace overlord::columnar
