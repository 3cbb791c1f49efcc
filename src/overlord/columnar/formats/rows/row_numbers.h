// Rows that a user's own reader gives: to the engine they are their numbers, as text, of which the
// source's transform makes what they hold. No file is behind them; one name stands for which reader
// it is and how many rows it has: rows://MODULE:NAME@VERSION/COUNT.
#pragma once

#include <memory>
#include <string>

#include "overlord/base/status.h"
#include "overlord/columnar/block_reader.h"
#include "overlord/columnar/index/index_file.h"
#include "overlord/columnar/index/shard_job.h"

namespace overlord::columnar {

// What such a name says; its fingerprint has the number of rows for a size.
Result<runtime::FileInfo> stat_rows(const std::string& uri);

Result<ShardPart> index_row_numbers(const ShardJob& job);

Result<std::unique_ptr<BlockReader>> make_row_numbers_reader(std::shared_ptr<const IndexFile> file,
                                                             const model::Source& source);

}  // namespace overlord::columnar
