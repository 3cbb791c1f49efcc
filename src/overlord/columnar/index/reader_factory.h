// The one place that knows all formats: who indexes a shard of a source, who reads its blocks.
#pragma once

#include <memory>

#include "overlord/base/status.h"
#include "overlord/columnar/block_reader.h"
#include "overlord/columnar/index/index_file.h"
#include "overlord/columnar/index/shard_job.h"
#include "overlord/model/source.h"
#include "overlord/runtime/buffer.h"

namespace overlord::columnar {

Result<ShardPart> index_shard(const ShardJob& job);

Result<std::unique_ptr<BlockReader>> make_reader(std::shared_ptr<const IndexFile> file,
                                                 const model::Source& source);

}  // namespace overlord::columnar
