#include "overlord/columnar/formats/arrow/arrow_reader.h"

#include "overlord/columnar/formats/arrow/arrow_batch.h"
#include "overlord/columnar/formats/arrow/table_reader.h"
#include "overlord/columnar/media_columns.h"

namespace overlord::columnar {
namespace {

class ArrowReader final : public TableReader {
 public:
  ArrowReader(std::shared_ptr<const IndexFile> file, const model::Source& source)
      : TableReader(std::move(file), source, "record batch"),
        media_names_(media_column_names(source_)) {}

 protected:
  Result<std::shared_ptr<Decoded>> read_table(
      const BlockRequest& request, Columns columns, const BlockRanges& places,
      const std::vector<runtime::Bytes>& pieces) const override {
    const model::BlockEntry& entry = block(request.block);
    const auto schema = kept_schema(file_->shard_extra(entry.shard));
    if (schema == nullptr) return wrong(request);
    const std::vector<std::string> names =
        columns == Columns::kMedia ? media_names_ : row_column_names(source_, *schema);
    auto decoded = std::make_shared<Decoded>();
    decoded->memory = decode_memory(request, 0);
    auto table =
        read_batch(find_columns(schema, names, source_), places, pieces,
                   file_->shards()[entry.shard].fingerprint.size_bytes, decoded->memory.get());
    if (!table.ok()) return arrow_error(request, table.status());
    if ((*table)->num_rows() != entry.rows) return wrong(request);
    decoded->table = std::move(*table);
    return decoded;
  }

 private:
  const std::vector<std::string> media_names_;
};

}  // namespace

Result<std::unique_ptr<BlockReader>> make_arrow_reader(std::shared_ptr<const IndexFile> file,
                                                       const model::Source& source) {
  return std::unique_ptr<BlockReader>(std::make_unique<ArrowReader>(std::move(file), source));
}

}  // namespace overlord::columnar
