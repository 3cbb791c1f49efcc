// Megatron's indexed datasets: tokens in .bin, lengths and document boundaries in .idx beside it.
// A document (a run of sequences) is one row. Read as all files of bare tokens are
// (formats/tokens/token_reader.h).
#pragma once

#include <string>

#include "overlord/base/status.h"
#include "overlord/columnar/index/index_file.h"
#include "overlord/columnar/index/shard_job.h"

namespace overlord::columnar {

// The .bin URI of what a config lists: a .bin or a prefix.
Result<std::string> megatron_bin_uri(const std::string& listed);

Result<ShardPart> index_megatron_shard(const ShardJob& job);

}  // namespace overlord::columnar
