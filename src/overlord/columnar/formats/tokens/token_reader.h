// TokenReader: documents of bare tokens, Megatron's and raw ones. Lengths come with the index, so
// these sources always have MetaOrigin::kIndex. Tokens are never copied when a block is read whole.
#pragma once

#include <memory>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/columnar/block_reader.h"
#include "overlord/columnar/index/index_file.h"

namespace overlord::columnar {

Result<std::unique_ptr<BlockReader>> make_token_reader(std::shared_ptr<const IndexFile> file,
                                                       const model::Source& source);

// Records of rows that were found bad by decoding although they have bytes: the reader has to step
// over them. Called once the lengths of `part` are final; they come behind what is kept of media.
void note_bad_documents(const std::vector<uint32_t>& stored_lengths, ShardPart* part);

}  // namespace overlord::columnar
