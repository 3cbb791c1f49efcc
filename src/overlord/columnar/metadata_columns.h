// Metadata columns of a block that Arrow decoded, taken into the index.
#pragma once

#include <arrow/table.h>

#include <cstdint>

#include "overlord/base/status.h"
#include "overlord/columnar/index/index_file.h"
#include "overlord/columnar/index/shard_job.h"

namespace overlord::columnar {

// Appends the values of one block to `part->columns`, and rows with a value that is none to
// `part->bad`. Row numbers of the block begin at `first_row`.
Status add_metadata_rows(const ShardJob& job, const arrow::Table& table, uint64_t first_row,
                         ShardPart* part);

}  // namespace overlord::columnar
