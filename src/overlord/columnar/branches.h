// Rows of files that are several rows of their source (model::RowSchema::branches): a chosen and a
// rejected answer to one prompt. The index keeps rows as the files have them; whoever opens it sees
// row i as rows i * branches to i * branches + branches - 1, each with the media of the one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "overlord/columnar/block_reader.h"
#include "overlord/columnar/index/index_file.h"
#include "overlord/model/manifest.h"
#include "overlord/model/source.h"

namespace overlord::columnar {

// What an index has by row, for all rows of the source.
struct BranchedRows {
  BranchedRows(const IndexFile& file, uint32_t branches);

  std::vector<model::ShardEntry> shards;
  std::vector<model::BlockEntry> blocks;
  std::vector<std::vector<uint32_t>> columns;
  // By field: where the blobs of each row end; by field and value what the index has of them.
  std::vector<std::vector<uint64_t>> media_ends;
  std::vector<std::vector<std::vector<uint32_t>>> media;
};

// Reads rows of files and gives those of the source: the text of each begins with the number of its
// branch, as the chat template's renderer wants it.
std::unique_ptr<BlockReader> make_branch_reader(std::unique_ptr<BlockReader> rows,
                                                const model::Source& source);

// "17", or of a row of branches "17 (rejected)".
std::string row_text(const model::Source& source, uint64_t row);

}  // namespace overlord::columnar
