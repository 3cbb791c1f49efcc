#include "overlord/columnar/formats/rows/row_numbers.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "overlord/base/hash.h"
#include "overlord/columnar/index/indexed_reader.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {
namespace {

// A row read alone costs its block, and blocks cost memory: few rows, unless there are very many.
constexpr uint64_t kLeastRows = 64, kMostRows = 1024, kBlocks = 100'000;
constexpr uint64_t kMostRowsOfASource = uint64_t{1} << 32;

class RowNumbersReader final : public IndexedReader {
 public:
  RowNumbersReader(std::shared_ptr<const IndexFile> file, const model::Source& source)
      : IndexedReader(std::move(file), source) {}

  Result<std::vector<RangeRequest>> ranges(const BlockRequest& request) const override {
    OVERLORD_RETURN_IF_ERROR(check_request(request));
    return std::vector<RangeRequest>();
  }

  Result<RowBlock> decode(const BlockRequest& request,
                          const std::vector<runtime::Bytes>& pieces) const override {
    OVERLORD_RETURN_IF_ERROR(check_request(request));
    OVERLORD_RETURN_IF_ERROR(check_pieces(request, {}, pieces));
    const model::BlockEntry& entry = block(request.block);
    const uint64_t first = entry.first_row - file_->shards()[entry.shard].first_row;
    RowBlock rows;
    rows.is_text = true;
    for (uint32_t row = 0; row < entry.rows; ++row) {
      rows.text.rows.bytes += std::to_string(first + row);
      rows.text.rows.ends.push_back(rows.text.rows.bytes.size());
    }
    return rows;
  }
};

}  // namespace

Result<runtime::FileInfo> stat_rows(const std::string& uri) {
  const std::string count = uri.substr(uri.rfind('/') + 1);
  runtime::FileInfo info;
  info.uri = uri;
  info.fingerprint.content = hash64(uri.data(), uri.size());
  uint64_t& rows = info.fingerprint.size_bytes;
  const auto [end, error] = std::from_chars(count.data(), count.data() + count.size(), rows);
  if (!uri.starts_with("rows://") || error != std::errc() || end != count.data() + count.size() ||
      rows > kMostRowsOfASource) {
    return invalid_argument("no rows of a reader: " + runtime::quote(uri) + "; at most " +
                            std::to_string(kMostRowsOfASource));
  }
  return info;
}

Result<ShardPart> index_row_numbers(const ShardJob& job) {
  ShardPart part;
  part.entry.uri = job.file.uri;
  part.entry.fingerprint = job.file.fingerprint;
  part.entry.rows = job.file.fingerprint.size_bytes;
  part.scanned = job.file.fingerprint.content;
  const uint64_t each = std::clamp(part.entry.rows / kBlocks, kLeastRows, kMostRows);
  for (uint64_t first = 0; first < part.entry.rows; first += each) {
    const uint64_t rows = std::min(each, part.entry.rows - first);
    part.blocks.push_back({first, static_cast<uint32_t>(rows), 0, first, rows});
  }
  return part;
}

Result<std::unique_ptr<BlockReader>> make_row_numbers_reader(std::shared_ptr<const IndexFile> file,
                                                             const model::Source& source) {
  return std::unique_ptr<BlockReader>(std::make_unique<RowNumbersReader>(std::move(file), source));
}

}  // namespace overlord::columnar
