// Media that rows of text name by paths: found while their shard is indexed, block by block.
#pragma once

#include "overlord/base/status.h"
#include "overlord/columnar/index/index_file.h"
#include "overlord/columnar/index/shard_job.h"

namespace overlord::columnar {

// Reads all rows of the shard, looks at the files they name and keeps where these lie behind what
// the blocks of `part` keep already. A row whose files cannot be used becomes a bad row.
Status note_named_media(const ShardJob& job, const IndexConfig& config, ShardPart* part);

}  // namespace overlord::columnar
