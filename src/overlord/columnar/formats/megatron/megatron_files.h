// Megatron's indexed datasets: tokens in .bin, lengths and document boundaries in .idx beside it.
// A document (a run of sequences) is one row. Lengths come with the format, so these sources always
// have MetaOrigin::kIndex. Tokens are never copied when a block is read whole.
#pragma once

#include <memory>
#include <string>

#include "overlord/base/status.h"
#include "overlord/columnar/block_reader.h"
#include "overlord/columnar/index/index_file.h"
#include "overlord/columnar/index/shard_job.h"

namespace overlord::columnar {

// The .bin URI of what a config lists: a .bin or a prefix.
Result<std::string> megatron_bin_uri(const std::string& listed);

Result<ShardPart> index_megatron_shard(const ShardJob& job);

Result<std::unique_ptr<BlockReader>> make_megatron_reader(std::shared_ptr<const IndexFile> file,
                                                          const model::Source& source);

// Records of rows that were found bad by decoding although they have bytes: the reader has to step
// over them. Called once the lengths of `part` are final.
void note_bad_documents(const std::vector<uint32_t>& stored_lengths, ShardPart* part);

}  // namespace overlord::columnar
