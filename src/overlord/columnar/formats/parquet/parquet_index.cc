// Indexing of Parquet shards: the footer is parsed once and dropped; what stays of a row group is
// its byte ranges and its metadata reduced to the columns the source needs.
#include <arrow/util/compression.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>

#include <algorithm>
#include <limits>

#include "overlord/base/bytes.h"
#include "overlord/base/hash.h"
#include "overlord/columnar/formats/parquet/parquet_columns.h"
#include "overlord/columnar/formats/parquet/parquet_reader.h"
#include "overlord/columnar/formats/parquet/parquet_schema.h"
#include "overlord/columnar/streams/block_ranges.h"
#include "overlord/columnar/streams/joined_ranges.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {
namespace {

constexpr uint64_t kTailBytes = 64 << 10;
constexpr uint64_t kMaxFooterBytes = 256 << 20;
constexpr uint64_t kTrailerBytes = 8;      // footer length and magic
constexpr uint64_t kRowOverheadBytes = 8;  // what a row costs decoded, even when it is empty

struct Footer {
  std::shared_ptr<parquet::FileMetaData> metadata;
  uint64_t begin = 0;  // offset in the file: data ends here
  uint64_t hash = 0;
};

Result<Footer> read_footer(const ShardJob& job) {
  const uint64_t size = job.file.fingerprint.size_bytes;
  if (size < 4 + kTrailerBytes) {
    return job.error("is too short for a Parquet file (" + std::to_string(size) + " bytes)");
  }
  const uint64_t tail_bytes = std::min(size, kTailBytes);
  OVERLORD_TRY(runtime::Bytes tail, job.read(job.file, size - tail_bytes, tail_bytes));
  ByteReader trailer(std::string_view(tail.data + tail.size - kTrailerBytes, kTrailerBytes));
  const uint64_t length = trailer.u32();
  const std::string_view magic = trailer.raw(4);
  if (magic == "PARE") {
    return job.error("is encrypted; encrypted Parquet is not supported", Code::kInvalidArgument);
  }
  if (magic != "PAR1") {
    return job.error("has no Parquet magic at its end (offset " + std::to_string(size - 4) +
                     "); is it cut short or another format?");
  }
  if (length > size - 4 - kTrailerBytes || length > kMaxFooterBytes) {
    return job.error("footer length " + std::to_string(length) + " (at offset " +
                     std::to_string(size - 8) + ") does not fit the file");
  }
  Footer footer;
  footer.begin = size - kTrailerBytes - length;
  std::string_view bytes;
  if (length + kTrailerBytes <= tail.size) {
    bytes = std::string_view(tail.data + tail.size - kTrailerBytes - length, length);
  } else {
    OVERLORD_TRY(tail, job.read(job.file, footer.begin, length));
    bytes = std::string_view(tail.data, tail.size);
  }
  footer.hash = hash64(bytes.data(), bytes.size());
  auto parsed = static_cast<uint32_t>(length);
  footer.metadata = parquet::FileMetaData::Make(bytes.data(), &parsed, footer_properties());
  return footer;
}

// Start of a column chunk: its dictionary page lies before its data pages.
uint64_t chunk_begin(const parquet::ColumnChunkMetaData& chunk) {
  const int64_t data = chunk.data_page_offset();
  const int64_t dictionary = chunk.has_dictionary_page() ? chunk.dictionary_page_offset() : 0;
  return static_cast<uint64_t>(dictionary > 0 && dictionary < data ? dictionary : data);
}

class RowGroups {
 public:
  RowGroups(const ShardJob& job, const Footer& footer, const Projection& projection,
            const Projection& metadata, const Projection& media, ShardPart* part)
      : job_(job),
        footer_(footer),
        projection_(projection),
        metadata_(metadata),
        media_(media),
        part_(part),
        notes_(job, part) {}

  Status add(int index) {
    const auto group = footer_.metadata->RowGroup(index);
    const int64_t rows = group->num_rows();
    if (rows == 0) return {};
    const model::SourceLimits& limits = job_.source->limits;
    if (rows < 0 || rows >= std::numeric_limits<uint32_t>::max() ||
        static_cast<uint64_t>(rows) > limits.max_block_bytes / kRowOverheadBytes) {
      return error(index, "declares " + std::to_string(rows) +
                              " rows, more than limits.max_block (" +
                              std::to_string(limits.max_block_bytes) + ") can hold");
    }
    std::vector<RangeRequest> ranges;
    uint64_t decoded = 0;
    for (const int leaf : projection_.leaves) {
      const auto chunk = group->ColumnChunk(leaf);
      OVERLORD_RETURN_IF_ERROR(check_chunk(index, *chunk));
      decoded += decoded_bytes(*chunk);
      ranges.push_back(
          {0, chunk_begin(*chunk), static_cast<uint64_t>(chunk->total_compressed_size())});
    }
    if (decoded > limits.max_block_bytes) {
      return error(index, "has " + std::to_string(decoded) + " bytes in the needed columns, over " +
                              "limits.max_block (" + std::to_string(limits.max_block_bytes) +
                              "); write smaller row groups or raise the limit");
    }
    OVERLORD_RETURN_IF_ERROR(add_columns(index, *group));
    write_extra(index, ranges);
    OVERLORD_RETURN_IF_ERROR(add_media(index, *group));
    part_->block_extra_ends.push_back(extras_.size());
    part_->blocks.push_back(
        {part_->entry.rows, static_cast<uint32_t>(rows), 0, static_cast<uint64_t>(index), decoded});
    part_->entry.rows += static_cast<uint64_t>(rows);
    return {};
  }

  void finish() { part_->block_extras = extras_.take(); }

 private:
  Status error(int index, const std::string& what, Code code = Code::kBadData) const {
    return job_.error("row group " + std::to_string(index) + " " + what, code);
  }

  Status add_columns(int index, const parquet::RowGroupMetaData& group) const {
    if (metadata_.leaves.empty()) return {};
    std::vector<RangeRequest> ranges;
    for (const int leaf : metadata_.leaves) {
      const auto chunk = group.ColumnChunk(leaf);
      OVERLORD_RETURN_IF_ERROR(check_chunk(index, *chunk));
      ranges.push_back(
          {0, chunk_begin(*chunk), static_cast<uint64_t>(chunk->total_compressed_size())});
    }
    return add_group_columns(job_, *footer_.metadata, index, metadata_, ranges, part_->entry.rows,
                             part_);
  }

  // Media are decoded once, here, to know their sizes: nothing else in the file tells them.
  Status add_media(int index, const parquet::RowGroupMetaData& group) {
    if (media_.leaves.empty()) return {};
    std::vector<RangeRequest> ranges;
    uint64_t decoded = 0;
    for (const int leaf : media_.leaves) {
      const auto chunk = group.ColumnChunk(leaf);
      OVERLORD_RETURN_IF_ERROR(check_chunk(index, *chunk));
      decoded += decoded_bytes(*chunk);
      // Entries of lists cost memory even where they are null and take no byte of the file.
      if (footer_.metadata->schema()->Column(leaf)->max_repetition_level() > 0) {
        const auto entries = static_cast<uint64_t>(chunk->num_values());
        decoded += std::min(entries, job_.source->limits.max_block_bytes) * kRowOverheadBytes;
      }
      ranges.push_back(
          {0, chunk_begin(*chunk), static_cast<uint64_t>(chunk->total_compressed_size())});
    }
    const uint64_t most = job_.source->limits.max_block_bytes;
    if (decoded > most) {
      return error(index, "has " + std::to_string(decoded) + " bytes of media, over " +
                              "limits.max_block (" + std::to_string(most) +
                              "); write smaller row groups or raise the limit");
    }
    return add_group_media(job_, *footer_.metadata, index, media_, ranges, decoded,
                           part_->entry.rows, &notes_, part_, &extras_);
  }

  Status check_chunk(int index, const parquet::ColumnChunkMetaData& chunk) const {
    const std::string column = "column " + runtime::quote(chunk.path_in_schema()->ToDotString());
    if (chunk.crypto_metadata() != nullptr) {
      return error(index, column + " is encrypted; encrypted Parquet is not supported",
                   Code::kInvalidArgument);
    }
    if (!chunk.file_path().empty()) {
      return error(index, column + " lies in another file", Code::kInvalidArgument);
    }
    if (!arrow::util::Codec::IsAvailable(chunk.compression())) {
      return error(index,
                   column + " is compressed with " +
                       arrow::util::Codec::GetCodecAsString(chunk.compression()) +
                       ", which this build of Arrow cannot read",
                   Code::kInvalidArgument);
    }
    const int64_t compressed = chunk.total_compressed_size();
    const uint64_t begin = chunk_begin(chunk);
    if (compressed <= 0 || chunk.total_uncompressed_size() < 0 || chunk.num_values() < 0 ||
        chunk.data_page_offset() < 4 || begin < 4 || begin > footer_.begin ||
        static_cast<uint64_t>(compressed) > footer_.begin - begin) {
      return error(index, column + " lies outside of the file (offset " + std::to_string(begin) +
                              ", size " + std::to_string(compressed) + "); is the file cut short?");
    }
    return {};
  }

  uint64_t decoded_bytes(const parquet::ColumnChunkMetaData& chunk) const {
    const auto uncompressed = static_cast<uint64_t>(chunk.total_uncompressed_size());
    if (chunk.type() == parquet::Type::BYTE_ARRAY) return uncompressed;
    // Encodings pack integers; decoded each takes its full width.
    const uint64_t width = chunk.type() == parquet::Type::INT64 ? 8 : 4;
    const auto values = static_cast<uint64_t>(chunk.num_values());
    return std::max(uncompressed, std::min(values, ~uint64_t{0} / width) * width);
  }

  void write_extra(int index, const std::vector<RangeRequest>& ranges) {
    JoinedRanges joined(0);
    for (const RangeRequest& range : ranges) joined.want(range.offset, range.size_bytes);
    const std::string reduced = reduced_metadata(*footer_.metadata, index, projection_);
    write_block_ranges({joined.ranges(), reduced}, &extras_);
  }

  const ShardJob& job_;
  const Footer& footer_;
  const Projection& projection_;
  const Projection& metadata_;
  const Projection& media_;
  ShardPart* const part_;
  MediaNotes notes_;
  ByteWriter extras_;
};

Result<ShardPart> index_checked(const ShardJob& job) {
  OVERLORD_TRY(const Footer footer, read_footer(job));
  if (footer.metadata->is_encryption_algorithm_set()) {
    return job.error("is encrypted; encrypted Parquet is not supported", Code::kInvalidArgument);
  }
  OVERLORD_TRY(const Projection projection, project(job, *footer.metadata));
  ShardPart part;
  part.entry.uri = job.file.uri;
  part.entry.fingerprint = job.file.fingerprint;
  part.scanned = footer.hash;
  part.extra = projection.description;
  OVERLORD_TRY(const Projection metadata, project_metadata(job, *footer.metadata));
  part.columns.resize(metadata.leaves.size());
  part.columns_seen = ~uint64_t{0} >> (64 - model::kMaxMetadataColumns);
  OVERLORD_TRY(const Projection media, project_media(job, *footer.metadata));
  if (!media.description.empty()) part.extra += "; media " + media.description;
  RowGroups groups(job, footer, projection, metadata, media, &part);
  for (int i = 0; i < footer.metadata->num_row_groups(); ++i) {
    OVERLORD_RETURN_IF_ERROR(groups.add(i));
  }
  groups.finish();
  return part;
}

}  // namespace

Result<ShardPart> index_parquet_shard(const ShardJob& job) {
  try {
    return index_checked(job);
  } catch (const std::bad_alloc&) {
    return job.error("no memory to parse its footer", Code::kResource);
  } catch (const std::exception& error) {  // parquet throws on broken metadata
    return job.error(std::string("footer is broken: ") + error.what());
  }
}

}  // namespace overlord::columnar
