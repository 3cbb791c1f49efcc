#include "overlord/columnar/formats/parquet/parquet_reader.h"

#include <parquet/arrow/reader.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>

#include <algorithm>

#include "overlord/columnar/formats/arrow/table_reader.h"
#include "overlord/columnar/formats/parquet/parquet_schema.h"
#include "overlord/columnar/streams/ranges_file.h"

namespace overlord::columnar {
namespace {

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

class ParquetReader final : public TableReader {
 public:
  ParquetReader(std::shared_ptr<const IndexFile> file, const model::Source& source)
      : TableReader(std::move(file), source, "row group") {}

 protected:
  Result<std::shared_ptr<Decoded>> read_table(
      const BlockRequest& request, Columns, const BlockRanges& columns,
      const std::vector<runtime::Bytes>& pieces) const override {
    const model::BlockEntry& entry = block(request.block);
    auto decoded = std::make_shared<Decoded>();
    auto length = static_cast<uint32_t>(columns.metadata.size());
    parquet::ReaderProperties limits = row_group_properties();
    auto metadata = parquet::FileMetaData::Make(columns.metadata.data(), &length, limits);
    if (metadata->num_row_groups() != 1 || metadata->num_rows() != entry.rows)
      return wrong(request);
    decoded->memory = decode_memory(request, largest_buffer(*metadata));

    parquet::ReaderProperties properties(decoded->memory.get());
    properties.set_page_checksum_verification(true);
    properties.set_thrift_string_size_limit(limits.thrift_string_size_limit());
    properties.set_thrift_container_size_limit(limits.thrift_container_size_limit());
    auto file = std::make_shared<RangesFile>(file_->shards()[entry.shard].fingerprint.size_bytes,
                                             columns.ranges, pieces);
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
};

}  // namespace

Result<std::unique_ptr<BlockReader>> make_parquet_reader(std::shared_ptr<const IndexFile> file,
                                                         const model::Source& source) {
  return std::unique_ptr<BlockReader>(std::make_unique<ParquetReader>(std::move(file), source));
}

}  // namespace overlord::columnar
