// JoinedRanges: many small stretches of one shard, read as few ranges: those that lie close
// together are read as one.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "overlord/columnar/block_reader.h"
#include "overlord/runtime/buffer.h"

namespace overlord::columnar {

class JoinedRanges {
 public:
  explicit JoinedRanges(uint32_t shard) : shard_(shard) {}
  void want(uint64_t offset, uint64_t size_bytes);
  // All wanted stretches, joined; ends the wanting.
  const std::vector<RangeRequest>& ranges();
  // One stretch out of pieces that answer ranges() one to one.
  std::string_view find(const std::vector<runtime::Bytes>& pieces, uint64_t offset,
                        uint64_t size_bytes) const;

 private:
  const uint32_t shard_;
  bool joined_ = false;
  std::vector<RangeRequest> ranges_;
};

}  // namespace overlord::columnar
