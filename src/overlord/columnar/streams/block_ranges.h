// BlockRanges: what the index keeps of a block that Arrow decodes: the stretches of the shard that
// hold its columns, and what the format needs to find its way in them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "overlord/base/bytes.h"
#include "overlord/columnar/block_reader.h"

namespace overlord::columnar {

struct BlockRanges {
  std::vector<RangeRequest> ranges;
  std::string_view metadata;
};

void write_block_ranges(const BlockRanges& block, ByteWriter* out);

// False: not what was written, or a range outside of a shard of `shard_bytes`.
bool read_block_ranges(uint32_t shard, uint64_t shard_bytes, ByteReader* in, BlockRanges* out);

}  // namespace overlord::columnar
