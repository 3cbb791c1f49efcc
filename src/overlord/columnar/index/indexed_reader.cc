#include "overlord/columnar/index/indexed_reader.h"

#include "overlord/runtime/quote.h"

namespace overlord::columnar {

using runtime::quote;

std::string row_reason(const std::string& source, const std::string& shard, uint64_t row,
                       std::string_view what) {
  return "source " + quote(source) + ", shard " + quote(shard) + ", row " + std::to_string(row) +
         ": " + std::string(what);
}

Status IndexedReader::check_request(const BlockRequest& request) const {
  if (request.block >= file_->blocks().size()) {
    return {Code::kOutOfRange, "source " + quote(source_.name) + ": block " +
                                   std::to_string(request.block) + " of " +
                                   std::to_string(file_->blocks().size())};
  }
  uint64_t next = 0;
  for (const uint32_t row : request.rows) {
    if (row < next || row >= block(request.block).rows) {
      return block_error(request.block,
                         "wanted row " + std::to_string(row) + " is not in it, or out of order",
                         Code::kOutOfRange);
    }
    next = uint64_t{row} + 1;
  }
  return {};
}

Status IndexedReader::check_pieces(const BlockRequest& request,
                                   const std::vector<RangeRequest>& ranges,
                                   const std::vector<runtime::Bytes>& pieces) const {
  bool fits = pieces.size() == ranges.size();
  for (size_t i = 0; fits && i < ranges.size(); ++i) fits = pieces[i].size == ranges[i].size_bytes;
  if (fits) return {};
  return block_error(request.block, "the bytes given are not the ranges asked for",
                     Code::kInternal);
}

std::string IndexedReader::reason(uint32_t index, uint32_t row, std::string_view what) const {
  const model::BlockEntry& entry = block(index);
  const model::ShardEntry& shard = file_->shards()[entry.shard];
  return row_reason(source_.name, shard.uri, entry.first_row - shard.first_row + row, what);
}

Status IndexedReader::block_error(uint32_t index, std::string_view what, Code code) const {
  const model::BlockEntry& entry = block(index);
  const model::ShardEntry& shard = file_->shards()[entry.shard];
  const uint64_t first = entry.first_row - shard.first_row;
  return {code, "source " + quote(source_.name) + ", shard " + quote(shard.uri) + ", block " +
                    std::to_string(index) + " (rows " + std::to_string(first) + " to " +
                    std::to_string(first + entry.rows - 1) + ", offset " +
                    std::to_string(entry.offset) + "): " + std::string(what)};
}

Result<runtime::Buffer> IndexedReader::buffer(const BlockRequest& request,
                                              size_t size_bytes) const {
  runtime::Buffer buffer;
  if (request.pool != nullptr) {
    buffer = request.pool->acquire(size_bytes);
  } else {
    // A pool that keeps nothing is a plain aligned allocation.
    buffer = runtime::BufferPool::make(0)->acquire(size_bytes);
  }
  if (buffer.data == nullptr) {
    return Status(Code::kResource, "source " + quote(source_.name) + ": no memory for " +
                                       std::to_string(size_bytes) + " bytes");
  }
  return buffer;
}

}  // namespace overlord::columnar
