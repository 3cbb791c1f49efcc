// MDS: samples of named, typed columns in shards, plain or compressed as a whole (zstd, gzip). Text
// is a column of str, or a field of one of json; tokens are a column of arrays, or of bytes of a
// declared type. A compressed shard is one block.
#pragma once

#include <memory>

#include "overlord/base/status.h"
#include "overlord/columnar/block_reader.h"
#include "overlord/columnar/index/index_file.h"
#include "overlord/columnar/index/shard_job.h"

namespace overlord::columnar {

Result<ShardPart> index_mds_shard(const ShardJob& job);
Result<std::unique_ptr<BlockReader>> make_mds_reader(std::shared_ptr<const IndexFile> file,
                                                     const model::Source& source);

}  // namespace overlord::columnar
