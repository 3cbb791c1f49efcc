// CSV and TSV with a header, plain, .gz and .zst. A record is a row; text columns, paths of media,
// whole numbers as metadata. A record that cannot be read is a bad row. By hand and not by Arrow,
// whose reader tells no offsets: a block could not be read again alone.
#pragma once

#include <memory>

#include "overlord/base/status.h"
#include "overlord/columnar/block_reader.h"
#include "overlord/columnar/index/index_file.h"
#include "overlord/columnar/index/shard_job.h"

namespace overlord::columnar {

Result<ShardPart> index_csv_shard(const ShardJob& job);

Result<std::unique_ptr<BlockReader>> make_csv_reader(std::shared_ptr<const IndexFile> file,
                                                     const model::Source& source);

}  // namespace overlord::columnar
