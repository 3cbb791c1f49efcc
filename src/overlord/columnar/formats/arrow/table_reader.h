// TableReader: reads blocks of the formats that Arrow decodes: a format turns a block's bytes into
// a table of the wanted columns; what rows and blobs are in it is the same for all of them.
#pragma once

#include <arrow/array.h>
#include <arrow/status.h>
#include <arrow/table.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "overlord/columnar/formats/arrow/arrow_memory.h"
#include "overlord/columnar/index/indexed_reader.h"
#include "overlord/columnar/streams/block_ranges.h"

namespace overlord::columnar {

class TableReader : public IndexedReader {
 public:
  Result<std::vector<RangeRequest>> ranges(const BlockRequest& request) const override;
  Result<RowBlock> decode(const BlockRequest& request,
                          const std::vector<runtime::Bytes>& pieces) const override;
  Result<MediaPlaces> media_places(const BlockRequest& request) const override;
  Result<std::vector<RangeRequest>> media_ranges(const BlockRequest& request) const override;
  Result<std::vector<runtime::Bytes>> decode_media(
      const BlockRequest& request, const std::vector<runtime::Bytes>& pieces) const override;

 protected:
  // `unit`: what the format calls a block ("row group").
  TableReader(std::shared_ptr<const IndexFile> file, const model::Source& source, const char* unit)
      : IndexedReader(std::move(file), source), unit_(unit) {}

  enum class Columns { kRows, kMedia };

  // What is read out of a block, and the memory it lies in, which must die last.
  struct Decoded {
    std::unique_ptr<ArrowMemory> memory;
    std::shared_ptr<arrow::Table> table;
    std::shared_ptr<arrow::Array> tokens;
    std::shared_ptr<arrow::Array> mask;
  };

  // The wanted columns, validated in full, with as many rows as the block. May throw.
  virtual Result<std::shared_ptr<Decoded>> read_table(
      const BlockRequest& request, Columns columns, const BlockRanges& block,
      const std::vector<runtime::Bytes>& pieces) const = 0;

  // For decoding one block: limited by limits.max_block.
  std::unique_ptr<ArrowMemory> decode_memory(const BlockRequest& request,
                                             int64_t largest_buffer_bytes) const;
  Status arrow_error(const BlockRequest& request, const arrow::Status& status) const;
  // The block is not what the index says.
  Status wrong(const BlockRequest& request) const;

 private:
  struct Extra {
    BlockRanges rows;
    std::string_view media;  // the same of the media columns, and where each blob is
  };
  struct Media {
    BlockRanges columns;
    MediaPlaces places;  // of the wanted rows
  };

  Result<Extra> read_extra(const BlockRequest& request) const;
  Result<Media> read_media_extra(const BlockRequest& request) const;
  Status damaged(const BlockRequest& request) const;
  Result<RowBlock> decode_checked(const BlockRequest& request, const BlockRanges& rows,
                                  const std::vector<runtime::Bytes>& pieces) const;
  Result<std::vector<runtime::Bytes>> decode_media_checked(
      const BlockRequest& request, const Media& media,
      const std::vector<runtime::Bytes>& pieces) const;
  Result<std::shared_ptr<arrow::Array>> list_column(const BlockRequest& request,
                                                    const Decoded& decoded,
                                                    const std::string& name) const;
  bool decodes_in_scratch(const BlockRequest& request) const;
  bool settles(const BlockRequest& request) const;
  Status settle(const BlockRequest& request, TokenBlock* block) const;

  const std::string unit_;
};

}  // namespace overlord::columnar
