// JSON lines: plain, .gz (also of several members) and .zst. One line is one row: an object with a
// text field, or with an array of token ids and perhaps a mask. Blank lines are no rows; CRLF, a
// byte order mark and a missing last newline are accepted. Every fault of a line is a bad row.
// A `.json` file that is one array: its elements are the rows.
#pragma once

#include <memory>
#include <string_view>

#include "overlord/base/status.h"
#include "overlord/columnar/block_reader.h"
#include "overlord/columnar/index/index_file.h"
#include "overlord/columnar/index/shard_job.h"

namespace overlord::columnar {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // may stand before the first line

// How the records of a block are parted (RecordBlocks::set_head). Blocks of lines have none, unless
// something follows it.
constexpr std::string_view kJsonLines = "l", kJsonElements = "e";

Result<ShardPart> index_jsonl_shard(const ShardJob& job);

Result<std::unique_ptr<BlockReader>> make_jsonl_reader(std::shared_ptr<const IndexFile> file,
                                                       const model::Source& source);

}  // namespace overlord::columnar
