#include "overlord/columnar/media_columns.h"

#include <arrow/array.h>

#include <algorithm>

#include "overlord/columnar/formats/arrow/column_types.h"
#include "overlord/columnar/index/index_layout.h"
#include "overlord/columnar/media_files.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {
namespace {

using runtime::quote;
using Kind = MediaPlace::Kind;

// How the index keeps where a blob is.
enum : uint8_t { kKeptFile = 1, kKeptDecoded = 2, kKeptInShard = 3 };

bool is_bytes_and_path(const arrow::DataType& type) {
  if (type.id() != arrow::Type::STRUCT || type.num_fields() != 2) return false;
  const auto& fields = static_cast<const arrow::StructType&>(type);
  const auto bytes = fields.GetFieldByName("bytes"), path = fields.GetFieldByName("path");
  return bytes != nullptr && path != nullptr && is_bytes(*bytes->type()) && is_bytes(*path->type());
}

bool is_text(const arrow::DataType& type) {
  return type.id() == arrow::Type::STRING || type.id() == arrow::Type::LARGE_STRING;
}

bool is_blob(const arrow::DataType& type) { return is_bytes(type) || is_bytes_and_path(type); }

const arrow::DataType& entry_type(const arrow::DataType& type) {
  return type.id() == arrow::Type::LIST ? *static_cast<const arrow::ListType&>(type).value_type()
                                        : type;
}

// Both string and binary arrays have the layout of BinaryArray.
std::string_view value_at(const arrow::Array& array, int64_t row) {
  if (is_large(*array.type()))
    return static_cast<const arrow::LargeBinaryArray&>(array).GetView(row);
  return static_cast<const arrow::BinaryArray&>(array).GetView(row);
}

void add_entry(const arrow::Array& array, int64_t at, bool is_path, std::vector<MediaCell>* out) {
  using enum MediaCell::Kind;
  if (array.IsNull(at)) return;
  if (array.type_id() != arrow::Type::STRUCT) {
    out->push_back({is_path ? kPath : kBytes, value_at(array, at)});
    return;
  }
  const auto& entries = static_cast<const arrow::StructArray&>(array);
  const auto bytes = entries.GetFieldByName("bytes"), path = entries.GetFieldByName("path");
  if (!bytes->IsNull(at)) {
    out->push_back({kBytes, value_at(*bytes, at)});
  } else if (!path->IsNull(at)) {
    out->push_back({kPath, value_at(*path, at)});
  }
}

class RowNotes {
 public:
  RowNotes(const ShardJob& job, const ShardOffset& offset_of, MediaNotes* notes, ByteWriter* extra)
      : job_(job), offset_of_(offset_of), notes_(notes), extra_(extra) {}

  // What is wrong with the row, or empty; a Status where the store fails.
  Result<std::string> add(const std::vector<MediaColumn>& columns, int64_t row) {
    notes_->begin_row();
    ByteWriter places;
    for (size_t field = 0; field < columns.size(); ++field) {
      OVERLORD_TRY(const std::string fault, add_cells(field, columns[field], row, &places));
      if (fault.empty()) continue;
      notes_->drop_row();
      for (size_t i = 0; i < columns.size(); ++i) extra_->varint(0);
      return fault;
    }
    extra_->raw(places.bytes().data(), places.size());
    return std::string();
  }

 private:
  Result<std::string> add_cells(size_t field, const MediaColumn& column, int64_t row,
                                ByteWriter* places) {
    const auto entries = static_cast<uint64_t>(column.entries(row));
    std::string fault = too_many_blobs(job_.source->media[field], entries);
    if (!fault.empty()) return fault;
    cells_.clear();
    column.blobs(row, &cells_);
    places->varint(cells_.size());
    for (const MediaCell& cell : cells_) {
      OVERLORD_TRY(fault, add_cell(field, cell, places));
      if (!fault.empty()) break;
    }
    return fault;
  }

  Result<std::string> add_cell(size_t field, const MediaCell& cell, ByteWriter* places) {
    if (cell.kind == MediaCell::Kind::kPath) return add_file(field, cell.value, places);
    add_bytes(cell.value, places);
    return note(field, {cell.value, cell.value.size(), nullptr});
  }

  void add_bytes(std::string_view bytes, ByteWriter* places) const {
    const std::optional<uint64_t> offset = offset_of_ ? offset_of_(bytes) : std::nullopt;
    places->u8(offset ? kKeptInShard : kKeptDecoded);
    if (offset) places->varint(*offset);
    places->varint(bytes.size());
  }

  Result<std::string> add_file(size_t field, std::string_view path, ByteWriter* places) {
    const std::string where = "media " + quote(job_.source->media[field].name) + ": ";
    const auto uri = beside_shard(job_.file.uri, path);
    if (!uri.ok()) return where + uri.status().message();
    const auto info = job_.storage->stat(*uri);
    if (!info.ok()) {
      // A file that is not there is a fault of its row; a store that does not answer is not.
      if (info.status().code() != Code::kNotFound) return info.status();
      return where + "no file " + quote(path, 200) + " beside the shard";
    }
    const uint64_t size = info->fingerprint.size_bytes;
    places->u8(kKeptFile);
    places->text(path);
    layout::write_fingerprint(info->fingerprint, places);
    const uint64_t head_bytes = std::min<uint64_t>(notes_->head_bytes(true), size);
    runtime::Bytes head;
    if (head_bytes > 0) {
      OVERLORD_TRY(head, job_.read(*info, 0, head_bytes));
    }
    return note(field, {std::string_view(head.data, head.size), size, [&](BlobRange range) {
                          return job_.read(*info, range.offset, range.size_bytes);
                        }});
  }

  Result<std::string> note(size_t field, const BlobSource& blob) {
    OVERLORD_TRY(const BlobNote note, notes_->look(field, blob));
    return notes_->add(field, note);
  }

  const ShardJob& job_;
  const ShardOffset& offset_of_;
  MediaNotes* const notes_;
  ByteWriter* const extra_;
  std::vector<MediaCell> cells_;  // of the row and field in hand
};

}  // namespace

Status check_media_type(const ShardJob& job, const arrow::Field& field) {
  const arrow::DataType& type = *field.type();
  const bool is_list = type.id() == arrow::Type::LIST;
  const std::string column = "column " + quote(field.name()) + " is " + type.ToString();
  for (const model::MediaField& media : job.source->media) {
    if (media.from.front() != field.name()) continue;
    if (!is_blob(entry_type(type))) {
      return job.error(column + ", media must be binary, struct{bytes, path} or paths (string)" +
                           (media.many ? ", in a list" : ""),
                       Code::kInvalidArgument);
    }
    if (is_list != media.many) {
      return job.error(column + (media.many ? ", media with `many: true` must be a list of them"
                                            : "; for lists write `many: true`"),
                       Code::kInvalidArgument);
    }
  }
  return {};
}

int64_t MediaColumn::entries(int64_t row) const {
  int chunk = 0;
  while (row >= column_.chunk(chunk)->length()) row -= column_.chunk(chunk++)->length();
  const arrow::Array& array = *column_.chunk(chunk);
  if (array.type_id() != arrow::Type::LIST) return 1;
  // What lies under a null list is nobody's, whatever its offsets say.
  return array.IsNull(row) ? 0 : static_cast<const arrow::ListArray&>(array).value_length(row);
}

void MediaColumn::blobs(int64_t row, std::vector<MediaCell>* out) const {
  int chunk = 0;
  while (row >= column_.chunk(chunk)->length()) row -= column_.chunk(chunk++)->length();
  const arrow::Array& array = *column_.chunk(chunk);
  if (array.type_id() != arrow::Type::LIST) return add_entry(array, row, paths_, out);
  if (array.IsNull(row)) return;
  const auto& lists = static_cast<const arrow::ListArray&>(array);
  for (int64_t i = 0; i < lists.value_length(row); ++i) {
    add_entry(*lists.values(), lists.value_offset(row) + i, paths_, out);
  }
}

void write_blob_in_shard(uint64_t offset, uint64_t size_bytes, ByteWriter* extra) {
  extra->u8(kKeptInShard);
  extra->varint(offset);
  extra->varint(size_bytes);
}

Status note_media_rows(const ShardJob& job, const arrow::Table& table, uint64_t first_row,
                       const ShardOffset& offset_of, MediaNotes* notes, ShardPart* part,
                       ByteWriter* extra) {
  std::vector<std::shared_ptr<arrow::ChunkedArray>> held;
  std::vector<MediaColumn> columns;
  for (const model::MediaField& field : job.source->media) {
    const auto column = table.GetColumnByName(field.from.front());
    if (column == nullptr) return job.error("lacks the media column " + quote(field.from.front()));
    held.push_back(column);
    columns.emplace_back(*held.back(), is_text(entry_type(*column->type())));
  }
  RowNotes rows(job, offset_of, notes, extra);
  for (int64_t row = 0; row < table.num_rows(); ++row) {
    OVERLORD_TRY(const std::string fault, rows.add(columns, row));
    if (fault.empty()) continue;
    const uint64_t at = first_row + static_cast<uint64_t>(row);
    for (std::vector<uint32_t>& values : part->columns) values[at] = 0;
    // Metadata columns may have found the row bad already: one reason is enough.
    const auto place =
        std::lower_bound(part->bad.begin(), part->bad.end(), at,
                         [](const auto& bad, uint64_t wanted) { return bad.first < wanted; });
    if (place == part->bad.end() || place->first != at) {
      part->bad.emplace(place, at, job.reason(at, fault));
    }
  }
  return {};
}

namespace {

bool read_place(ByteReader* extra, const model::ShardEntry& shard, MediaPlace* place) {
  switch (extra->u8()) {
    case kKeptDecoded:
      place->kind = Kind::kDecoded;
      place->size_bytes = extra->varint();
      return true;
    case kKeptInShard:
      place->kind = Kind::kRange;
      place->uri = shard.uri;
      place->expected = shard.fingerprint;
      place->offset = extra->varint();
      place->size_bytes = extra->varint();
      return place->offset <= place->expected.size_bytes &&
             place->size_bytes <= place->expected.size_bytes - place->offset;
    case kKeptFile: {
      const auto uri = beside_shard(shard.uri, extra->text());
      if (!uri.ok()) return false;
      place->kind = Kind::kRange;
      place->uri = *uri;
      place->expected = layout::read_fingerprint(extra);
      place->size_bytes = place->expected.size_bytes;
      return true;
    }
    default:
      return false;
  }
}

}  // namespace

bool read_media_rows(ByteReader* extra, const model::ShardEntry& shard, size_t rows,
                     const std::vector<model::MediaField>& media, MediaPlaces* out) {
  if (media.empty() || rows > extra->remaining() / media.size()) return false;
  out->ends.reserve(rows * media.size());
  for (size_t i = 0; i < rows * media.size(); ++i) {
    const size_t count = extra->count(1);
    if (!too_many_blobs(media[i % media.size()], count).empty()) return false;
    for (size_t blob = 0; blob < count; ++blob) {
      if (!read_place(extra, shard, &out->blobs.emplace_back())) return false;
    }
    out->ends.push_back(static_cast<uint32_t>(out->blobs.size()));
  }
  return !extra->failed();
}

MediaPlaces wanted_places(MediaPlaces all, size_t fields, const std::vector<uint32_t>& rows) {
  if (rows.empty()) return all;
  MediaPlaces out;
  for (const uint32_t row : rows) {
    for (size_t list = row * fields; list < (row + 1) * fields; ++list) {
      for (uint32_t i = list == 0 ? 0 : all.ends[list - 1]; i < all.ends[list]; ++i) {
        out.blobs.push_back(std::move(all.blobs[i]));
      }
      out.ends.push_back(static_cast<uint32_t>(out.blobs.size()));
    }
  }
  return out;
}

Result<std::vector<runtime::Bytes>> blobs_of(const arrow::Table& table,
                                             const std::shared_ptr<const void>& holder,
                                             const std::vector<model::MediaField>& media,
                                             const MediaPlaces& places,
                                             const std::vector<uint32_t>& rows) {
  const Status changed = bad_data("media are not what was indexed; run `overlord index`");
  std::vector<runtime::Bytes> blobs(places.blobs.size());
  std::vector<MediaCell> cells;
  size_t begin = 0;
  for (size_t list = 0; list < places.ends.size(); ++list) {
    const size_t count = places.ends[list] - begin;
    const size_t at = begin;
    begin = places.ends[list];
    if (count == 0) continue;
    const auto column = table.GetColumnByName(media[list % media.size()].from.front());
    if (column == nullptr) return bad_data("lacks a media column");
    const size_t place = list / media.size();
    const auto row = static_cast<int64_t>(rows.empty() ? place : rows[place]);
    const MediaColumn entries(*column, false);
    if (row >= column->length() || entries.entries(row) > int64_t{model::kMaxRowBlobs}) {
      return changed;
    }
    cells.clear();
    entries.blobs(row, &cells);
    if (cells.size() != count) return changed;
    for (size_t i = 0; i < count; ++i) {
      if (places.blobs[at + i].kind != Kind::kDecoded) continue;
      const std::string_view value = cells[i].value;
      if (cells[i].kind != MediaCell::Kind::kBytes ||
          value.size() != places.blobs[at + i].size_bytes) {
        return changed;
      }
      // An empty blob is there all the same.
      blobs[at + i] = value.data() == nullptr ? runtime::Bytes::copy_of("")
                                              : runtime::Bytes{holder, value.data(), value.size()};
    }
  }
  return blobs;
}

}  // namespace overlord::columnar
