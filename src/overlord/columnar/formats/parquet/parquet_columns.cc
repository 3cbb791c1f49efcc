#include "overlord/columnar/formats/parquet/parquet_columns.h"

#include <arrow/table.h>
#include <parquet/arrow/reader.h>
#include <parquet/file_reader.h>

#include <string>

#include "overlord/columnar/formats/arrow/arrow_memory.h"
#include "overlord/columnar/media_columns.h"
#include "overlord/columnar/metadata_columns.h"
#include "overlord/columnar/streams/block_ranges.h"
#include "overlord/columnar/streams/ranges_file.h"

namespace overlord::columnar {
namespace {

// Pages, builders and results of 8-byte values at once.
constexpr int64_t kBytesPerValue = 64;
constexpr int64_t kFreeBytes = 64 << 20;
constexpr int64_t kDecodeFactor = 4;  // of bytes, for the same reason

class GroupColumns {
 public:
  GroupColumns(const ShardJob& job, int group, const char* what)
      : job_(job), group_(group), what_(what) {}

  Result<std::shared_ptr<arrow::Table>> read(const std::string& metadata_bytes,
                                             const std::vector<RangeRequest>& ranges,
                                             int64_t expected_bytes) {
    std::vector<runtime::Bytes> pieces;
    for (const RangeRequest& range : ranges) {
      OVERLORD_TRY(runtime::Bytes bytes, job_.read(job_.file, range.offset, range.size_bytes));
      pieces.push_back(std::move(bytes));
    }
    auto length = static_cast<uint32_t>(metadata_bytes.size());
    parquet::ReaderProperties limits = row_group_properties();
    auto metadata = parquet::FileMetaData::Make(metadata_bytes.data(), &length, limits);
    const int64_t values = metadata->num_rows() * static_cast<int64_t>(ranges.size());
    memory_ = std::make_unique<ArrowMemory>(
        nullptr, values * kBytesPerValue + kDecodeFactor * expected_bytes + kFreeBytes);
    parquet::ReaderProperties properties(memory_.get());
    properties.set_page_checksum_verification(true);
    properties.set_thrift_string_size_limit(limits.thrift_string_size_limit());
    properties.set_thrift_container_size_limit(limits.thrift_container_size_limit());
    auto file = std::make_shared<RangesFile>(job_.file.fingerprint.size_bytes, ranges, pieces);
    parquet::ArrowReaderProperties arrow_properties(/*use_threads=*/false);
    arrow_properties.set_pre_buffer(false);
    auto reader = parquet::arrow::FileReader::Make(
        memory_.get(), parquet::ParquetFileReader::Open(file, properties, metadata),
        arrow_properties);
    if (!reader.ok()) return error(reader.status().message());
    auto table = (*reader)->ReadRowGroup(0);
    if (!table.ok()) return error(table.status().message());
    const arrow::Status valid = (*table)->ValidateFull();
    if (!valid.ok()) return error(valid.message());
    if ((*table)->num_rows() != metadata->num_rows()) return error("has other rows than it says");
    return std::move(*table);
  }

  Status error(const std::string& what) const {
    return job_.error("row group " + std::to_string(group_) + ", " + what_ + " columns: " + what);
  }

 private:
  const ShardJob& job_;
  const int group_;
  const char* const what_;
  std::unique_ptr<ArrowMemory> memory_;  // what a table lies in must die after it
};

}  // namespace

Status add_group_columns(const ShardJob& job, const parquet::FileMetaData& metadata, int group,
                         const Projection& projection, const std::vector<RangeRequest>& ranges,
                         uint64_t first_row, ShardPart* part) {
  GroupColumns columns(job, group, "metadata");
  OVERLORD_TRY(const std::shared_ptr<arrow::Table> table,
               columns.read(reduced_metadata(metadata, group, projection), ranges, 0));
  return add_metadata_rows(job, *table, first_row, part);
}

Status add_group_media(const ShardJob& job, const parquet::FileMetaData& metadata, int group,
                       const Projection& projection, const std::vector<RangeRequest>& ranges,
                       uint64_t decoded_bytes, uint64_t first_row, MediaNotes* notes,
                       ShardPart* part, ByteWriter* extra) {
  GroupColumns columns(job, group, "media");
  const std::string reduced = reduced_metadata(metadata, group, projection);
  OVERLORD_TRY(const std::shared_ptr<arrow::Table> table,
               columns.read(reduced, ranges, static_cast<int64_t>(decoded_bytes)));
  write_block_ranges({ranges, reduced}, extra);
  return note_media_rows(job, *table, first_row, nullptr, notes, part, extra);
}

}  // namespace overlord::columnar
