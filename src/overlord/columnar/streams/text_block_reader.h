// TextBlockReader: reads blocks that RecordBlocks cut, plain or compressed: a format turns the text
// of a block into rows. Where the media of rows lie is kept behind what RecordBlocks kept
// (named_media.h).
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/columnar/block_reader.h"
#include "overlord/columnar/index/indexed_reader.h"
#include "overlord/columnar/streams/block_restart.h"
#include "overlord/columnar/streams/text_stream.h"

namespace overlord::columnar {

// Bytes that may be read behind the text of a compressed block.
inline constexpr size_t kTextPadding = 64;

class TextBlockReader : public IndexedReader {
 public:
  Result<std::vector<RangeRequest>> ranges(const BlockRequest& request) const override;
  Result<RowBlock> decode(const BlockRequest& request,
                          const std::vector<runtime::Bytes>& pieces) const override;
  Result<MediaPlaces> media_places(const BlockRequest& request) const override;

 protected:
  TextBlockReader(std::shared_ptr<const IndexFile> file, const model::Source& source)
      : IndexedReader(std::move(file), source) {}

  // `head`: as the indexer gave it. `readable`: bytes behind `text` that may be read.
  virtual Result<RowBlock> parse(const BlockRequest& request, std::string_view head,
                                 std::string_view text, size_t readable) const = 0;

  // The block has another number of records than the index says.
  Status other_rows(const BlockRequest& request, size_t rows, const char* unit) const;
  Status damaged(const BlockRequest& request) const;

 private:
  struct Extra {
    BlockRestart restart;
    std::string_view head;
    std::string_view media;
  };

  Coding coding(const BlockRequest& request) const;
  Result<Extra> read_extra(const BlockRequest& request) const;
  Result<RowBlock> unreadable(const BlockRequest& request) const;
};

}  // namespace overlord::columnar
