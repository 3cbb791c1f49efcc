#include "overlord/columnar/formats/csv/csv_reader.h"

#include <utility>

#include "overlord/columnar/formats/csv/csv_columns.h"
#include "overlord/columnar/formats/csv/csv_rows.h"
#include "overlord/columnar/formats/csv/csv_text.h"
#include "overlord/columnar/streams/text_block_reader.h"

namespace overlord::columnar {
namespace {

class CsvReader final : public TextBlockReader {
 public:
  CsvReader(std::shared_ptr<const IndexFile> file, const model::Source& source)
      : TextBlockReader(std::move(file), source) {}

 protected:
  Result<RowBlock> parse(const BlockRequest& request, std::string_view head, std::string_view text,
                         size_t) const override {
    CsvColumns columns;
    if (!columns.read(head, source_)) return damaged(request);
    const model::BlockEntry& entry = block(request.block);
    const char delimiter = csv_delimiter(file_->shards()[entry.shard].uri);
    CsvRows rows(
        source_, std::move(columns), delimiter, request.named_media,
        [&](uint32_t row, std::string_view what) { return reason(request.block, row, what); });
    size_t records = 0;
    uint64_t begin = 0;
    const auto add = [&](uint64_t size) {
      if (records++ < entry.rows) rows.add(text.substr(begin, size));
    };
    CsvScanner scanner(
        delimiter, [&](uint64_t offset) { begin = offset - kFarFromMark; },
        [&](uint64_t, uint64_t size) { add(size); });
    scanner.add(text, kFarFromMark);
    if (scanner.rest() > 0) add(scanner.rest());
    if (records != entry.rows) return other_rows(request, records, "records");
    return rows.take();
  }

 private:
  static constexpr uint64_t kFarFromMark = 1 << 10;  // blocks begin behind the byte order mark
};

}  // namespace

Result<std::unique_ptr<BlockReader>> make_csv_reader(std::shared_ptr<const IndexFile> file,
                                                     const model::Source& source) {
  return std::unique_ptr<BlockReader>(std::make_unique<CsvReader>(std::move(file), source));
}

}  // namespace overlord::columnar
