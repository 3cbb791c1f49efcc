// Files of tokens and nothing else, as OLMo, nanoGPT and llm.c keep them: an array of integers, in
// which the source says how documents are told apart (model::RawTokens). The tokens of all rows,
// one after another, are those of the file: what ends or begins a document is part of it.
#pragma once

#include "overlord/base/status.h"
#include "overlord/columnar/index/index_file.h"
#include "overlord/columnar/index/shard_job.h"

namespace overlord::columnar {

Result<ShardPart> index_raw_tokens_shard(const ShardJob& job);

}  // namespace overlord::columnar
