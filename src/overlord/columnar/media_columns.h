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
#include "overlord/columnar/media.h"

namespace overlord::columnar {

// kInvalidArgument when a column is of a type that media do not have.
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

// Of a blob that lies in the shard as it is: what note_media_rows() writes, for formats that find
// their blobs by themselves. A row is a varint count and its blobs, field by field.
void write_blob_in_shard(uint64_t offset, uint64_t size_bytes, ByteWriter* extra);

// Where the blobs of a block are, all rows; false: not what was written.
bool read_media_rows(ByteReader* extra, const model::ShardEntry& shard, size_t rows,
                     const std::vector<model::MediaField>& media, MediaPlaces* out);

// Of all rows' places those of the wanted rows.
MediaPlaces wanted_places(MediaPlaces all, size_t fields, const std::vector<uint32_t>& rows);

// The blobs that are kDecoded, out of the decoded block; `holder` keeps the table alive.
Result<std::vector<runtime::Bytes>> blobs_of(const arrow::Table& table,
                                             const std::shared_ptr<const void>& holder,
                                             const std::vector<model::MediaField>& media,
                                             const MediaPlaces& places,
                                             const std::vector<uint32_t>& rows);

}  // namespace overlord::columnar
