#include "overlord/columnar/streams/text_block_reader.h"

#include <cstring>
#include <string>

#include "overlord/base/bytes.h"
#include "overlord/columnar/kept_places.h"

namespace overlord::columnar {

Result<std::vector<RangeRequest>> TextBlockReader::ranges(const BlockRequest& request) const {
  OVERLORD_RETURN_IF_ERROR(check_request(request));
  const model::BlockEntry& entry = block(request.block);
  if (entry.size_bytes == 0) return std::vector<RangeRequest>();
  if (entry.size_bytes > source_.limits.max_block_bytes) {
    return block_error(request.block, "is over limits.max_block");
  }
  RangeRequest range{entry.shard, entry.offset, entry.size_bytes};
  if (coding(request) != Coding::kPlain) {
    OVERLORD_TRY(const Extra extra, read_extra(request));
    range.offset = extra.restart.point.first_byte();
    range.size_bytes = extra.restart.compressed_bytes;
  }
  const uint64_t size = file_->shards()[entry.shard].fingerprint.size_bytes;
  if (range.offset > size || range.size_bytes > size - range.offset) return damaged(request);
  return std::vector<RangeRequest>{range};
}

Result<RowBlock> TextBlockReader::decode(const BlockRequest& request,
                                         const std::vector<runtime::Bytes>& pieces) const {
  OVERLORD_TRY(const std::vector<RangeRequest> needed, ranges(request));
  OVERLORD_RETURN_IF_ERROR(check_pieces(request, needed, pieces));
  if (needed.empty()) return unreadable(request);
  OVERLORD_TRY(Extra extra, read_extra(request));
  if (coding(request) == Coding::kPlain) {
    return parse(request, extra.head, std::string_view(pieces[0].data, pieces[0].size), 0);
  }
  BlockRestart& entry = extra.restart;
  const Status window = load_window(file_->shard_extra(block(request.block).shard), &entry);
  if (!window.ok()) return block_error(request.block, window.message());
  const size_t size = block(request.block).size_bytes;
  OVERLORD_TRY(const runtime::Buffer text, buffer(request, size + kTextPadding));
  const Status expanded =
      expand(coding(request), entry.point, std::string_view(pieces[0].data, pieces[0].size),
             entry.skip, text.data.get(), size);
  if (!expanded.ok()) return block_error(request.block, expanded.message(), expanded.code());
  std::memset(text.data.get() + size, ' ', kTextPadding);
  OVERLORD_TRY(RowBlock rows,
               parse(request, extra.head, std::string_view(text.data.get(), size), kTextPadding));
  rows.skipped_bytes = entry.skip;
  return rows;
}

Result<MediaPlaces> TextBlockReader::media_places(const BlockRequest& request) const {
  MediaPlaces places;
  if (source_.media.empty()) return places;
  OVERLORD_RETURN_IF_ERROR(check_request(request));
  const model::BlockEntry& entry = block(request.block);
  const model::ShardEntry& shard = file_->shards()[entry.shard];
  const size_t fields = source_.media.size();
  if (entry.size_bytes == 0) {  // a record too long to be read: it has none
    places.ends.assign(fields, 0);
    return places;
  }
  OVERLORD_TRY(const Extra extra, read_extra(request));
  ByteReader reader(extra.media);
  if (!read_media_rows(&reader, shard, entry.rows, source_.media, &places) || !reader.at_end()) {
    return damaged(request);
  }
  return wanted_places(std::move(places), fields, request.rows);
}

Coding TextBlockReader::coding(const BlockRequest& request) const {
  return coding_of(file_->shards()[block(request.block).shard].uri);
}

Status TextBlockReader::damaged(const BlockRequest& request) const {
  return block_error(request.block, "index is damaged (restart point); run `overlord index`");
}

Status TextBlockReader::other_rows(const BlockRequest& request, size_t rows,
                                   const char* unit) const {
  return block_error(request.block, "has " + std::to_string(rows) + " " + unit +
                                        ", not what was indexed; run `overlord index`");
}

Result<TextBlockReader::Extra> TextBlockReader::read_extra(const BlockRequest& request) const {
  ByteReader reader(file_->block_extra(request.block));
  Extra extra;
  const bool compressed = coding(request) != Coding::kPlain;
  if (compressed && !read_restart(&reader, &extra.restart)) return damaged(request);
  if (!reader.at_end()) extra.head = reader.text();
  extra.media = reader.raw(reader.remaining());
  if (reader.failed() || (source_.media.empty() && !extra.media.empty())) return damaged(request);
  return extra;
}

// A record too long to be read: its block has no bytes, only the reason.
Result<RowBlock> TextBlockReader::unreadable(const BlockRequest& request) const {
  const model::BlockEntry& entry = block(request.block);
  if (entry.rows != 1) return damaged(request);
  const model::BadRow bad{0, std::string(file_->bad_reason(entry.first_row))};
  RowBlock rows;
  rows.is_text = !source_.text_column.empty();
  if (rows.is_text) {
    rows.text.rows.ends = {0};
    rows.text.bad = {bad};
  } else {
    rows.tokens.begins = {0};
    rows.tokens.counts = {model::kBadRow};
    rows.tokens.bad = {bad};
  }
  rows.columns.assign(source_.metadata_columns.size(), {0});
  if (request.named_media) rows.named.emplace_back();
  return rows;
}

}  // namespace overlord::columnar
