#include "overlord/columnar/streams/block_ranges.h"

namespace overlord::columnar {

void write_block_ranges(const BlockRanges& block, ByteWriter* out) {
  out->varint(block.ranges.size());
  for (const RangeRequest& range : block.ranges) {
    out->varint(range.offset);
    out->varint(range.size_bytes);
  }
  out->text(block.metadata);
}

bool read_block_ranges(uint32_t shard, uint64_t shard_bytes, ByteReader* in, BlockRanges* out) {
  const size_t count = in->count(2);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t offset = in->varint();
    const uint64_t bytes = in->varint();
    if (offset > shard_bytes || bytes > shard_bytes - offset) return false;
    out->ranges.push_back({shard, offset, bytes});
  }
  out->metadata = in->text();
  return !in->failed();
}

}  // namespace overlord::columnar
