// Arrow IPC, one record batch at a time, from streams (what datasets' save_to_disk writes) and
// files (Feather version 2): the columns that Parquet sources can have, read by the stretches of
// the shard that hold them. Blobs that are not compressed are read where they lie.
#pragma once

#include <memory>

#include "overlord/base/status.h"
#include "overlord/columnar/block_reader.h"
#include "overlord/columnar/index/index_file.h"
#include "overlord/columnar/index/shard_job.h"

namespace overlord::columnar {

Result<ShardPart> index_arrow_shard(const ShardJob& job);

Result<std::unique_ptr<BlockReader>> make_arrow_reader(std::shared_ptr<const IndexFile> file,
                                                       const model::Source& source);

}  // namespace overlord::columnar
