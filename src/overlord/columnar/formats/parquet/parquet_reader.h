// Parquet, one row group at a time: a text column, or a column of token lists with an optional
// mask. No footer is kept and no file is opened: the index holds what of the metadata a row group
// needs. Token lists without nulls are used where Arrow decoded them, not copied.
#pragma once

#include <memory>

#include "overlord/base/status.h"
#include "overlord/columnar/block_reader.h"
#include "overlord/columnar/index/index_file.h"
#include "overlord/columnar/index/shard_job.h"

namespace overlord::columnar {

Result<ShardPart> index_parquet_shard(const ShardJob& job);

Result<std::unique_ptr<BlockReader>> make_parquet_reader(std::shared_ptr<const IndexFile> file,
                                                         const model::Source& source);

}  // namespace overlord::columnar
