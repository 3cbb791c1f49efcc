#include "overlord/columnar/parquet_columns.h"

#include <arrow/array.h>
#include <arrow/table.h>
#include <parquet/arrow/reader.h>
#include <parquet/file_reader.h>

#include <algorithm>
#include <string>
#include <utility>

#include "overlord/columnar/arrow_memory.h"
#include "overlord/columnar/media_columns.h"
#include "overlord/columnar/metadata_value.h"
#include "overlord/columnar/ranges_file.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {
namespace {

// Pages, builders and results of 8-byte values at once.
constexpr int64_t kBytesPerValue = 64;
constexpr int64_t kFreeBytes = 64 << 20;
constexpr int64_t kDecodeFactor = 4;  // of bytes, for the same reason

using Faults = std::vector<std::pair<uint64_t, std::string>>;

template <typename ArrayType>
void take_numbers(const arrow::Array& array, const std::string& name, uint64_t row,
                  std::vector<uint32_t>* out, Faults* faults) {
  const auto& numbers = static_cast<const ArrayType&>(array);
  for (int64_t i = 0; i < numbers.length(); ++i) {
    const auto value = numbers.IsNull(i) ? 0 : numbers.Value(i);
    if (std::in_range<uint32_t>(value)) {
      out->push_back(static_cast<uint32_t>(value));
      continue;
    }
    out->push_back(0);
    faults->emplace_back(row + static_cast<uint64_t>(i),
                         metadata_fault(name, std::to_string(value)));
  }
}

void take_flags(const arrow::Array& array, std::vector<uint32_t>* out) {
  const auto& flags = static_cast<const arrow::BooleanArray&>(array);
  for (int64_t i = 0; i < flags.length(); ++i) {
    out->push_back(!flags.IsNull(i) && flags.Value(i) ? 1 : 0);
  }
}

// False: a type that project_metadata() does not let through.
bool take_chunk(const arrow::Array& array, const std::string& name, uint64_t row,
                std::vector<uint32_t>* out, Faults* faults) {
  switch (array.type_id()) {
    case arrow::Type::BOOL:
      take_flags(array, out);
      return true;
    case arrow::Type::INT8:
      take_numbers<arrow::Int8Array>(array, name, row, out, faults);
      return true;
    case arrow::Type::UINT8:
      take_numbers<arrow::UInt8Array>(array, name, row, out, faults);
      return true;
    case arrow::Type::INT16:
      take_numbers<arrow::Int16Array>(array, name, row, out, faults);
      return true;
    case arrow::Type::UINT16:
      take_numbers<arrow::UInt16Array>(array, name, row, out, faults);
      return true;
    case arrow::Type::INT32:
      take_numbers<arrow::Int32Array>(array, name, row, out, faults);
      return true;
    case arrow::Type::UINT32:
      take_numbers<arrow::UInt32Array>(array, name, row, out, faults);
      return true;
    case arrow::Type::INT64:
      take_numbers<arrow::Int64Array>(array, name, row, out, faults);
      return true;
    case arrow::Type::UINT64:
      take_numbers<arrow::UInt64Array>(array, name, row, out, faults);
      return true;
    default:
      return false;
  }
}

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
  const std::vector<std::string>& names = job.source->metadata_columns;
  GroupColumns columns(job, group, "metadata");
  OVERLORD_TRY(const std::shared_ptr<arrow::Table> table,
               columns.read(reduced_metadata(metadata, group, projection), ranges, 0));
  Faults faults;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto column = table->GetColumnByName(names[i]);
    if (column == nullptr) return columns.error("lack " + runtime::quote(names[i]));
    uint64_t row = first_row;
    for (const auto& chunk : column->chunks()) {
      if (!take_chunk(*chunk, names[i], row, &part->columns[i], &faults)) {
        return columns.error(runtime::quote(names[i]) + " is " + chunk->type()->ToString());
      }
      row += static_cast<uint64_t>(chunk->length());
    }
  }
  std::stable_sort(faults.begin(), faults.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [row, what] : faults) {
    if (!part->bad.empty() && part->bad.back().first == row) continue;  // one reason is enough
    part->bad.emplace_back(row, job.reason(row, what));
    for (std::vector<uint32_t>& values : part->columns) values[row] = 0;
  }
  return {};
}

Status add_group_media(const ShardJob& job, const parquet::FileMetaData& metadata, int group,
                       const Projection& projection, const std::vector<RangeRequest>& ranges,
                       uint64_t decoded_bytes, uint64_t first_row, MediaNotes* notes,
                       ShardPart* part, ByteWriter* extra) {
  GroupColumns columns(job, group, "media");
  const std::string reduced = reduced_metadata(metadata, group, projection);
  OVERLORD_TRY(const std::shared_ptr<arrow::Table> table,
               columns.read(reduced, ranges, static_cast<int64_t>(decoded_bytes)));
  extra->varint(ranges.size());
  for (const RangeRequest& range : ranges) {
    extra->varint(range.offset);
    extra->varint(range.size_bytes);
  }
  extra->text(reduced);
  return note_media_rows(job, *table, first_row, notes, part, extra);
}

}  // namespace overlord::columnar
