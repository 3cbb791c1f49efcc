// Media in columns, for formats that Arrow decodes: a column of bytes, of struct{bytes, path} (the
// Hub's layout: a path counts where there are no bytes), or of paths of files beside the shard; for
// a field with many blobs a list of one of them, in which nulls are left out.
#pragma once

#include <arrow/chunked_array.h>
#include <arrow/table.h>
#include <arrow/type.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/bytes.h"
#include "overlord/base/status.h"
#include "overlord/columnar/index/shard_job.h"
#include "overlord/columnar/kept_places.h"
#include "overlord/columnar/media.h"

namespace overlord::columnar {

// The columns that are read for the media of a source: those of blobs, and where their parts begin
// and end; each once.
std::vector<std::string> media_column_names(const model::Source& source);

// kInvalidArgument when a column is of a type that media, or the seconds of a part, do not have.
Status check_media_type(const ShardJob& job, const arrow::Field& field);

// One blob of a row.
struct MediaCell {
  enum class Kind : uint8_t { kBytes, kPath };
  Kind kind = Kind::kBytes;
  std::string_view value;
};

// `column` is validated and of a type that check_media_type() lets through, or one without its
// logical type (paths as plain bytes): `is_path` tells.
class MediaColumn {
 public:
  MediaColumn(const arrow::ChunkedArray& column, bool is_path) : column_(column), paths_(is_path) {}
  // Number of entries of a row, those that are null too.
  int64_t entries(int64_t row) const;
  // The blobs of a row, in order.
  void blobs(int64_t row, std::vector<MediaCell>* out) const;

 private:
  const arrow::ChunkedArray& column_;
  const bool paths_;
};

// Where bytes of a decoded block lie in the shard as they are; nullopt: nowhere, they were made.
using ShardOffset = std::function<std::optional<uint64_t>(std::string_view bytes)>;

// Rows of one block: notes sizes, lets the probe look, finds files; what a reader needs to find the
// blobs again goes to `extra`. A row whose media cannot be used becomes a bad row of `part`.
// `offset_of` may be null: then all bytes were made by decoding.
Status note_media_rows(const ShardJob& job, const arrow::Table& table, uint64_t first_row,
                       const ShardOffset& offset_of, MediaNotes* notes, ShardPart* part,
                       ByteWriter* extra);

// The blobs that are kDecoded, out of the decoded block; `holder` keeps the table alive.
Result<std::vector<runtime::Bytes>> blobs_of(const arrow::Table& table,
                                             const std::shared_ptr<const void>& holder,
                                             const std::vector<model::MediaField>& media,
                                             const MediaPlaces& places,
                                             const std::vector<uint32_t>& rows);

}  // namespace overlord::columnar
