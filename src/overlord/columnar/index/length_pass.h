// The lengths of one shard's rows: every block is read and decoded, text goes through the encoder.
// The same pass gathers the metadata columns of formats that have no columns of their own (JSONL).
// What is found bad here is bad for good: it never enters a plan (law 5).
#pragma once

#include "overlord/base/status.h"
#include "overlord/columnar/index/index_file.h"
#include "overlord/columnar/index/shard_job.h"
#include "overlord/runtime/seams.h"

namespace overlord::columnar {

// Fills `part->lengths` and adds to `part->bad`. `config` is what the index will be written with.
Status count_tokens(const ShardJob& job, runtime::TextEncoder* encoder, const IndexConfig& config,
                    ShardPart* part);

// Fills `part->columns` of a JSONL shard and adds to `part->bad`, without counting tokens.
Status read_columns(const ShardJob& job, const IndexConfig& config, ShardPart* part);

}  // namespace overlord::columnar
