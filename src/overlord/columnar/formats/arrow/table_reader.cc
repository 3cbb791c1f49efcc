#include "overlord/columnar/formats/arrow/table_reader.h"

#include <arrow/array/concatenate.h>

#include <algorithm>
#include <new>

#include "overlord/base/bytes.h"
#include "overlord/columnar/formats/arrow/arrow_rows.h"
#include "overlord/columnar/formats/arrow/column_types.h"
#include "overlord/columnar/formats/arrow/table_schema_text.h"
#include "overlord/columnar/media_columns.h"
#include "overlord/model/widen.h"

namespace overlord::columnar {
namespace {

// Decoding holds pages, growing builders and the result at once.
constexpr int64_t kDecodeFactor = 4;
constexpr int64_t kDecodeFreeBytes = 64 << 20;
constexpr uint32_t kShortIds = 1 << 16;  // a vocabulary up to here fits 16 bits

}  // namespace

Result<std::vector<RangeRequest>> TableReader::ranges(const BlockRequest& request) const {
  OVERLORD_TRY(Extra extra, read_extra(request));
  return std::move(extra.rows.ranges);
}

Result<RowBlock> TableReader::decode(const BlockRequest& request,
                                     const std::vector<runtime::Bytes>& pieces) const {
  OVERLORD_TRY(const Extra extra, read_extra(request));
  OVERLORD_RETURN_IF_ERROR(check_pieces(request, extra.rows.ranges, pieces));
  try {
    return decode_checked(request, extra.rows, pieces);
  } catch (const std::bad_alloc&) {
    return block_error(request.block, "no memory to decode it", Code::kResource);
  } catch (const std::exception& error) {  // parquet throws on broken pages
    return block_error(request.block, error.what());
  }
}

Result<MediaPlaces> TableReader::media_places(const BlockRequest& request) const {
  OVERLORD_TRY(Media media, read_media_extra(request));
  return std::move(media.places);
}

Result<std::vector<RangeRequest>> TableReader::media_ranges(const BlockRequest& request) const {
  OVERLORD_TRY(Media media, read_media_extra(request));
  return std::move(media.columns.ranges);
}

Result<std::vector<runtime::Bytes>> TableReader::decode_media(
    const BlockRequest& request, const std::vector<runtime::Bytes>& pieces) const {
  OVERLORD_TRY(const Media media, read_media_extra(request));
  OVERLORD_RETURN_IF_ERROR(check_pieces(request, media.columns.ranges, pieces));
  try {
    return decode_media_checked(request, media, pieces);
  } catch (const std::bad_alloc&) {
    return block_error(request.block, "no memory to decode its media", Code::kResource);
  } catch (const std::exception& error) {  // parquet throws on broken pages
    return block_error(request.block, error.what());
  }
}

Result<TableReader::Extra> TableReader::read_extra(const BlockRequest& request) const {
  OVERLORD_RETURN_IF_ERROR(check_request(request));
  const model::BlockEntry& entry = block(request.block);
  const uint64_t size = file_->shards()[entry.shard].fingerprint.size_bytes;
  ByteReader reader(file_->block_extra(request.block));
  Extra extra;
  const bool fits = read_block_ranges(entry.shard, size, &reader, &extra.rows);
  if (!source_.media.empty()) extra.media = reader.raw(reader.remaining());
  if (!fits || !reader.status(unit_).ok()) return damaged(request);
  return extra;
}

Result<TableReader::Media> TableReader::read_media_extra(const BlockRequest& request) const {
  OVERLORD_TRY(const Extra extra, read_extra(request));
  const model::BlockEntry& entry = block(request.block);
  const model::ShardEntry& shard = file_->shards()[entry.shard];
  Media media;
  if (source_.media.empty()) return media;
  ByteReader reader(extra.media);
  if (!read_block_ranges(entry.shard, shard.fingerprint.size_bytes, &reader, &media.columns) ||
      !read_media_rows(&reader, shard, entry.rows, source_.media, &media.places) ||
      !reader.at_end()) {
    return damaged(request);
  }
  media.places = wanted_places(std::move(media.places), source_.media.size(), request.rows);
  return media;
}

Status TableReader::damaged(const BlockRequest& request) const {
  return block_error(request.block, "index is damaged (" + unit_ + "); run `overlord index`");
}

Status TableReader::wrong(const BlockRequest& request) const {
  return block_error(request.block, unit_ + " is not what was indexed; run `overlord index`");
}

Status TableReader::arrow_error(const BlockRequest& request, const arrow::Status& status) const {
  if (status.IsOutOfMemory()) {
    return block_error(request.block, unit_ + " decodes to more than limits.max_block allows (" +
                                          std::to_string(source_.limits.max_block_bytes) + ")");
  }
  return block_error(request.block, status.message());
}

std::unique_ptr<ArrowMemory> TableReader::decode_memory(const BlockRequest& request,
                                                        int64_t largest_buffer_bytes) const {
  const auto most =
      static_cast<int64_t>(std::min<uint64_t>(source_.limits.max_block_bytes, uint64_t{1} << 50));
  return std::make_unique<ArrowMemory>(decodes_in_scratch(request) ? request.scratch : request.pool,
                                       kDecodeFactor * most + kDecodeFreeBytes,
                                       largest_buffer_bytes);
}

Result<std::vector<runtime::Bytes>> TableReader::decode_media_checked(
    const BlockRequest& request, const Media& media,
    const std::vector<runtime::Bytes>& pieces) const {
  BlockRequest lasting = request;  // blobs are views of what is decoded, so it must not be scratch
  lasting.scratch = nullptr;
  OVERLORD_TRY(const std::shared_ptr<Decoded> decoded,
               read_table(lasting, Columns::kMedia, media.columns, pieces));
  auto blobs = blobs_of(*decoded->table, decoded, source_.media, media.places, request.rows);
  if (!blobs.ok()) return block_error(request.block, blobs.status().message());
  return blobs;
}

Result<RowBlock> TableReader::decode_checked(const BlockRequest& request, const BlockRanges& rows,
                                             const std::vector<runtime::Bytes>& pieces) const {
  OVERLORD_TRY(const std::shared_ptr<Decoded> decoded,
               read_table(request, Columns::kRows, rows, pieces));
  const RowNamer name = [&](uint32_t row, std::string_view what) {
    return reason(request.block, row, what);
  };
  RowBlock out;
  out.is_text = !source_.text_column.empty();
  if (source_.schema.declared()) {
    auto text = schema_rows(*decoded->table, source_, name);
    if (!text.ok()) return block_error(request.block, text.status().message());
    out.text = std::move(*text);
    return out;
  }
  if (out.is_text) {
    const auto column = decoded->table->GetColumnByName(source_.text_column);
    if (column == nullptr || !is_bytes(*column->type())) return wrong(request);
    out.text = text_rows(*column, source_, name);
    return out;
  }
  OVERLORD_TRY(decoded->tokens, list_column(request, *decoded, source_.token_column));
  if (!source_.mask_column.empty()) {
    OVERLORD_TRY(decoded->mask, list_column(request, *decoded, source_.mask_column));
  }
  decoded->table = nullptr;
  auto tokens = token_rows(*decoded->tokens, decoded->mask.get(), decoded, source_, name,
                           [&](size_t size) { return buffer(request, size); });
  if (!tokens.ok()) return tokens.status();
  out.tokens = std::move(*tokens);
  keep_wanted(request.rows, &out.tokens);
  if (settles(request)) OVERLORD_RETURN_IF_ERROR(settle(request, &out.tokens));
  return out;
}

Result<std::shared_ptr<arrow::Array>> TableReader::list_column(const BlockRequest& request,
                                                               const Decoded& decoded,
                                                               const std::string& name) const {
  const auto column = decoded.table->GetColumnByName(name);
  if (column == nullptr || !is_list(*column->type())) return wrong(request);
  if (column->num_chunks() == 1) return column->chunk(0);
  auto joined = arrow::Concatenate(column->chunks(), decoded.memory.get());
  if (!joined.ok()) return arrow_error(request, joined.status());
  return *joined;
}

// Text is copied out of what Arrow made anyway.
bool TableReader::decodes_in_scratch(const BlockRequest& request) const {
  return settles(request) || (request.scratch != nullptr && !source_.text_column.empty());
}

// Whether the block is decoded in scratch memory and its ids move out of it, to 16 bits each: half
// of what the file's type takes, without the levels and offsets that Arrow keeps with them.
bool TableReader::settles(const BlockRequest& request) const {
  return request.scratch != nullptr && source_.text_column.empty() && source_.vocabulary > 0 &&
         source_.vocabulary <= kShortIds;
}

Status TableReader::settle(const BlockRequest& request, TokenBlock* block) const {
  const size_t count = block->values.size / element_bytes(block->element);
  OVERLORD_TRY(const runtime::Buffer out, buffer(request, count * sizeof(uint16_t)));
  const model::TokenSpan all{block->values.data, nullptr, static_cast<uint32_t>(count),
                             block->element};
  model::widen(all, 0, static_cast<uint32_t>(count), reinterpret_cast<uint16_t*>(out.data.get()));
  block->values = {out.data, out.data.get(), count * sizeof(uint16_t)};
  block->element = Element::kU16;
  return {};
}

}  // namespace overlord::columnar
