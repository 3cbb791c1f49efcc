// BlockReader: how one format turns bytes into rows. Pure and thread-safe: it names the byte ranges
// it needs, somebody else reads them, and decode() turns them into a RowBlock on a CPU thread.
// One per source; holds no file handle and no parsed footer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/columnar/media.h"
#include "overlord/model/element.h"
#include "overlord/model/manifest.h"
#include "overlord/model/mesh.h"
#include "overlord/model/sample_meta.h"
#include "overlord/model/source.h"
#include "overlord/runtime/buffer.h"
#include "overlord/runtime/seams.h"

namespace overlord::columnar {

using model::Element;
using model::element_bytes;

// Rows of tokens over one shared buffer. Row i is values[begins[i], begins[i] + counts[i]).
struct TokenBlock {
  Element element = Element::kI32;
  runtime::Bytes values;
  std::vector<uint64_t> begins;  // in elements
  std::vector<uint32_t> counts;  // raw tokens, without bos and eod; model::kBadRow: bad, see `bad`
  runtime::Bytes mask;           // one uint8 per element of `values`, or empty
  std::vector<model::BadRow> bad;    // index = row in the block
  std::vector<uint32_t> text_bytes;  // of each row, where the source counts them; else empty

  size_t rows() const { return counts.size(); }
  uint64_t size_bytes() const;
};

// Rows of text that still have to be tokenised.
struct TextBlock {
  runtime::TextRows rows;
  std::vector<model::BadRow> bad;  // such a row is an empty string in `rows`
};

// What a row of text says of its media where files hold them (Source::media): per field the paths,
// in order; or what is wrong with them.
struct NamedMedia {
  std::vector<std::vector<std::string>> paths;
  std::vector<BlobPart> parts = {};  // per field, where it has parts; else empty
  std::string fault;
};

struct RowBlock {
  bool is_text = false;
  TokenBlock tokens;           // when !is_text
  TextBlock text;              // when is_text
  uint64_t skipped_bytes = 0;  // decompressed in vain to get to the block
  // JSONL, when indexing: values of Source::metadata_columns by row, which of them some row has
  // (bit i), and the fields of the first row that is good.
  std::vector<std::vector<uint32_t>> columns;
  uint64_t columns_seen = 0;
  std::string fields;
  std::vector<NamedMedia> named;  // by row, where they were asked for
};

// Rows of a block that are wanted, ascending; empty: all. Only ready-token formats use it to read
// less; a row that was not asked for has count 0 in the answer.
struct BlockRequest {
  uint32_t block = 0;
  std::vector<uint32_t> rows;
  std::shared_ptr<runtime::BufferPool> pool = nullptr;  // for what is decoded; null: the system
  // For what is needed only while decoding, where that should not lie in `pool`; null: it may.
  std::shared_ptr<runtime::BufferPool> scratch = nullptr;
  bool named_media = false;  // of formats of text, when indexing: paths too
};

struct RangeRequest {
  uint32_t shard = 0;
  uint64_t offset = 0;
  uint64_t size_bytes = 0;
};

class BlockReader {
 public:
  virtual ~BlockReader() = default;
  virtual Result<std::vector<RangeRequest>> ranges(const BlockRequest& request) const = 0;
  // `pieces` answer `ranges` one to one. kBadData here condemns the whole block; a bad row does
  // not.
  virtual Result<RowBlock> decode(const BlockRequest& request,
                                  const std::vector<runtime::Bytes>& pieces) const = 0;

  // Where the media of the wanted rows are (empty: of all rows). A row that is bad for its own sake
  // has none.
  virtual Result<MediaPlaces> media_places(const BlockRequest& request) const;
  // What has to be read for those that are kDecoded ...
  virtual Result<std::vector<RangeRequest>> media_ranges(const BlockRequest& request) const;
  // ... and, from pieces that answer it one to one, their bytes, in the order of media_places;
  // all others have null data.
  virtual Result<std::vector<runtime::Bytes>> decode_media(
      const BlockRequest& request, const std::vector<runtime::Bytes>& pieces) const;
};

}  // namespace overlord::columnar
