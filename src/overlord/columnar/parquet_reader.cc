#include "overlord/columnar/parquet_reader.h"

#include <arrow/array/concatenate.h>
#include <arrow/table.h>
#include <parquet/arrow/reader.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>

#include <limits>

#include "overlord/base/bytes.h"
#include "overlord/columnar/arrow_memory.h"
#include "overlord/columnar/indexed_reader.h"
#include "overlord/columnar/media_columns.h"
#include "overlord/columnar/parquet_rows.h"
#include "overlord/columnar/parquet_schema.h"
#include "overlord/columnar/parquet_schema_text.h"
#include "overlord/columnar/ranges_file.h"
#include "overlord/columnar/widen.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {
namespace {

// Decoding holds pages, growing builders and the result at once.
constexpr int64_t kDecodeFactor = 4;
constexpr int64_t kDecodeFreeBytes = 64 << 20;
constexpr uint32_t kShortIds = 1 << 16;  // a vocabulary up to here fits 16 bits

struct Extra {
  std::vector<RangeRequest> ranges;
  std::string_view metadata;
  std::string_view media;  // the same of the media columns, and where each blob is
};

// What the values of a block lie in; the memory must die last.
struct Decoded {
  std::unique_ptr<ArrowMemory> memory;
  std::shared_ptr<arrow::Table> table;
  std::shared_ptr<arrow::Array> tokens;
  std::shared_ptr<arrow::Array> mask;
};

// What the largest buffer of a row group's decoding grows to, by what its footer says.
int64_t largest_buffer(const parquet::FileMetaData& metadata) {
  const auto group = metadata.RowGroup(0);
  int64_t most = 0;
  for (int i = 0; i < group->num_columns(); ++i) {
    const auto chunk = group->ColumnChunk(i);
    const bool wide =
        chunk->type() == parquet::Type::INT64 || chunk->type() == parquet::Type::DOUBLE;
    const int64_t count = std::clamp<int64_t>(chunk->num_values(), 0, int64_t{1} << 40);
    most = std::max(most, count * (wide ? 8 : 4));
  }
  return most;
}

class ParquetReader final : public IndexedReader {
 public:
  ParquetReader(std::shared_ptr<const IndexFile> file, const model::Source& source)
      : IndexedReader(std::move(file), source) {}

  Result<std::vector<RangeRequest>> ranges(const BlockRequest& request) const override {
    OVERLORD_TRY(Extra extra, read_extra(request));
    return std::move(extra.ranges);
  }

  Result<RowBlock> decode(const BlockRequest& request,
                          const std::vector<runtime::Bytes>& pieces) const override {
    OVERLORD_TRY(const Extra extra, read_extra(request));
    OVERLORD_RETURN_IF_ERROR(check_pieces(request, extra.ranges, pieces));
    try {
      return decode_checked(request, extra, pieces);
    } catch (const std::bad_alloc&) {
      return block_error(request.block, "no memory to decode it", Code::kResource);
    } catch (const std::exception& error) {  // parquet throws on broken pages
      return block_error(request.block, error.what());
    }
  }

  Result<std::vector<MediaPlace>> media_places(const BlockRequest& request) const override {
    OVERLORD_TRY(Media media, read_media_extra(request));
    return std::move(media.places);
  }

  Result<std::vector<RangeRequest>> media_ranges(const BlockRequest& request) const override {
    OVERLORD_TRY(Media media, read_media_extra(request));
    return std::move(media.columns.ranges);
  }

  Result<std::vector<runtime::Bytes>> decode_media(
      const BlockRequest& request, const std::vector<runtime::Bytes>& pieces) const override {
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

 private:
  Result<Extra> read_extra(const BlockRequest& request) const {
    OVERLORD_RETURN_IF_ERROR(check_request(request));
    const model::BlockEntry& entry = block(request.block);
    const uint64_t size = file_->shards()[entry.shard].fingerprint.size_bytes;
    ByteReader reader(file_->block_extra(request.block));
    Extra extra;
    const bool fits = read_ranges(entry.shard, size, &reader, &extra);
    if (!source_.media.empty()) extra.media = reader.raw(reader.remaining());
    if (!fits || !reader.status("row group").ok()) return damaged(request);
    return extra;
  }

  static bool read_ranges(uint32_t shard, uint64_t shard_bytes, ByteReader* reader, Extra* extra) {
    const size_t count = reader->count(2);
    for (size_t i = 0; i < count; ++i) {
      const uint64_t offset = reader->varint();
      const uint64_t bytes = reader->varint();
      if (offset > shard_bytes || bytes > shard_bytes - offset) return false;
      extra->ranges.push_back({shard, offset, bytes});
    }
    extra->metadata = reader->text();
    return !reader->failed();
  }

  Status damaged(const BlockRequest& request) const {
    return block_error(request.block, "index is damaged (row group); run `overlord index`");
  }

  struct Media {
    Extra columns;
    std::vector<MediaPlace> places;  // of the wanted rows
  };

  Result<Media> read_media_extra(const BlockRequest& request) const {
    OVERLORD_TRY(const Extra extra, read_extra(request));
    const model::BlockEntry& entry = block(request.block);
    const model::ShardEntry& shard = file_->shards()[entry.shard];
    Media media;
    if (source_.media.empty()) return media;
    ByteReader reader(extra.media);
    if (!read_ranges(entry.shard, shard.fingerprint.size_bytes, &reader, &media.columns) ||
        !read_media_rows(&reader, shard.uri, entry.rows, source_.media.size(), &media.places) ||
        !reader.at_end()) {
      return damaged(request);
    }
    media.places = wanted_places(std::move(media.places), source_.media.size(), request.rows);
    return media;
  }

  Result<std::vector<runtime::Bytes>> decode_media_checked(
      const BlockRequest& request, const Media& media,
      const std::vector<runtime::Bytes>& pieces) const {
    BlockRequest lasting =
        request;  // blobs are views of what is decoded, so it must not be scratch
    lasting.scratch = nullptr;
    OVERLORD_TRY(const std::shared_ptr<Decoded> decoded,
                 read_table(lasting, media.columns, pieces));
    auto blobs = blobs_of(*decoded->table, decoded, source_.media, media.places, request.rows);
    if (!blobs.ok()) return block_error(request.block, blobs.status().message());
    return blobs;
  }

  Status arrow_error(const BlockRequest& request, const arrow::Status& status) const {
    if (status.IsOutOfMemory()) {
      return block_error(request.block, "row group decodes to more than limits.max_block allows (" +
                                            std::to_string(source_.limits.max_block_bytes) + ")");
    }
    return block_error(request.block, status.message());
  }

  Result<RowBlock> decode_checked(const BlockRequest& request, const Extra& extra,
                                  const std::vector<runtime::Bytes>& pieces) const {
    OVERLORD_TRY(const std::shared_ptr<Decoded> decoded, read_table(request, extra, pieces));
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
      if (column == nullptr || column->type()->id() != arrow::Type::BINARY) return wrong(request);
      out.text = text_rows(*column, source_, name);
      return out;
    }
    OVERLORD_TRY(decoded->tokens, list_column(request, *decoded, source_.token_column));
    if (!source_.mask_column.empty()) {
      OVERLORD_TRY(decoded->mask, list_column(request, *decoded, source_.mask_column));
    }
    decoded->table = nullptr;
    auto tokens = token_rows(static_cast<const arrow::ListArray&>(*decoded->tokens),
                             static_cast<const arrow::ListArray*>(decoded->mask.get()), decoded,
                             source_, name, [&](size_t size) { return buffer(request, size); });
    if (!tokens.ok()) return tokens.status();
    out.tokens = std::move(*tokens);
    keep_wanted(request.rows, &out.tokens);
    if (settles(request)) OVERLORD_RETURN_IF_ERROR(settle(request, &out.tokens));
    return out;
  }

  // Text is copied out of what Arrow made anyway.
  bool decodes_in_scratch(const BlockRequest& request) const {
    return settles(request) || (request.scratch != nullptr && !source_.text_column.empty());
  }

  // Whether the row group is decoded in scratch memory and its ids move out of it, to 16 bits each:
  // half of what the file's type takes, without the levels and offsets that Arrow keeps with them.
  bool settles(const BlockRequest& request) const {
    return request.scratch != nullptr && source_.text_column.empty() && source_.vocabulary > 0 &&
           source_.vocabulary <= kShortIds;
  }

  Status settle(const BlockRequest& request, TokenBlock* block) const {
    const size_t count = block->values.size / element_bytes(block->element);
    OVERLORD_TRY(const runtime::Buffer out, buffer(request, count * sizeof(uint16_t)));
    const model::TokenSpan all{block->values.data, nullptr, static_cast<uint32_t>(count),
                               block->element};
    widen(all, 0, static_cast<uint32_t>(count), reinterpret_cast<uint16_t*>(out.data.get()));
    block->values = {out.data, out.data.get(), count * sizeof(uint16_t)};
    block->element = Element::kU16;
    return {};
  }

  Result<std::shared_ptr<Decoded>> read_table(const BlockRequest& request, const Extra& extra,
                                              const std::vector<runtime::Bytes>& pieces) const {
    const model::BlockEntry& entry = block(request.block);
    const int64_t most =
        static_cast<int64_t>(std::min<uint64_t>(source_.limits.max_block_bytes, uint64_t{1} << 50));
    auto decoded = std::make_shared<Decoded>();
    auto length = static_cast<uint32_t>(extra.metadata.size());
    parquet::ReaderProperties limits = row_group_properties();
    auto metadata = parquet::FileMetaData::Make(extra.metadata.data(), &length, limits);
    if (metadata->num_row_groups() != 1 || metadata->num_rows() != entry.rows)
      return wrong(request);
    decoded->memory = std::make_unique<ArrowMemory>(
        decodes_in_scratch(request) ? request.scratch : request.pool,
        kDecodeFactor * most + kDecodeFreeBytes, largest_buffer(*metadata));

    parquet::ReaderProperties properties(decoded->memory.get());
    properties.set_page_checksum_verification(true);
    properties.set_thrift_string_size_limit(limits.thrift_string_size_limit());
    properties.set_thrift_container_size_limit(limits.thrift_container_size_limit());
    auto file = std::make_shared<RangesFile>(file_->shards()[entry.shard].fingerprint.size_bytes,
                                             extra.ranges, pieces);
    parquet::ArrowReaderProperties arrow_properties(/*use_threads=*/false);
    arrow_properties.set_pre_buffer(false);
    auto reader = parquet::arrow::FileReader::Make(
        decoded->memory.get(), parquet::ParquetFileReader::Open(file, properties, metadata),
        arrow_properties);
    if (!reader.ok()) return arrow_error(request, reader.status());
    auto table = (*reader)->ReadRowGroup(0);
    if (!table.ok()) return arrow_error(request, table.status());
    const arrow::Status valid = (*table)->ValidateFull();
    if (!valid.ok()) return arrow_error(request, valid);
    if ((*table)->num_rows() != entry.rows) return wrong(request);
    decoded->table = std::move(*table);
    return decoded;
  }

  Result<std::shared_ptr<arrow::Array>> list_column(const BlockRequest& request,
                                                    const Decoded& decoded,
                                                    const std::string& name) const {
    const auto column = decoded.table->GetColumnByName(name);
    if (column == nullptr || column->type()->id() != arrow::Type::LIST) return wrong(request);
    if (column->num_chunks() == 1) return column->chunk(0);
    auto joined = arrow::Concatenate(column->chunks(), decoded.memory.get());
    if (!joined.ok()) return arrow_error(request, joined.status());
    return *joined;
  }

  Status wrong(const BlockRequest& request) const {
    return block_error(request.block, "row group is not what was indexed; run `overlord index`");
  }
};

}  // namespace

Result<std::unique_ptr<BlockReader>> make_parquet_reader(std::shared_ptr<const IndexFile> file,
                                                         const model::Source& source) {
  return std::unique_ptr<BlockReader>(std::make_unique<ParquetReader>(std::move(file), source));
}

}  // namespace overlord::columnar
