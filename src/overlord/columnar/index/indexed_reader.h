// IndexedReader: what the readers of all formats share: the index they read by, the checks of a
// request and of its answer, and how a row or a block is named in a message.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/columnar/block_reader.h"
#include "overlord/columnar/index/index_file.h"
#include "overlord/model/source.h"
#include "overlord/runtime/buffer.h"

namespace overlord::columnar {

// "source 'web', shard '/data/a.jsonl', row 17: <what>"
std::string row_reason(const std::string& source, const std::string& shard, uint64_t row,
                       std::string_view what);

class IndexedReader : public BlockReader {
 protected:
  IndexedReader(std::shared_ptr<const IndexFile> file, model::Source source)
      : file_(std::move(file)), source_(std::move(source)) {}

  // The block exists and the wanted rows are in it, ascending.
  Status check_request(const BlockRequest& request) const;
  // One piece per range, each of the size that was asked for.
  Status check_pieces(const BlockRequest& request, const std::vector<RangeRequest>& ranges,
                      const std::vector<runtime::Bytes>& pieces) const;

  const model::BlockEntry& block(uint32_t index) const { return file_->blocks()[index]; }
  std::string reason(uint32_t block, uint32_t row, std::string_view what) const;
  Status block_error(uint32_t block, std::string_view what, Code code = Code::kBadData) const;
  // Memory for `size_bytes`, from the request's pool when it has one; kResource: there is none.
  Result<runtime::Buffer> buffer(const BlockRequest& request, size_t size_bytes) const;

  const std::shared_ptr<const IndexFile> file_;
  const model::Source source_;
};

}  // namespace overlord::columnar
