#include "overlord/columnar/media_columns.h"

#include <arrow/array.h>

#include <algorithm>
#include <numeric>

#include "overlord/columnar/column_types.h"
#include "overlord/columnar/index_layout.h"
#include "overlord/columnar/media_files.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {
namespace {

using runtime::quote;
using Kind = MediaPlace::Kind;

// How the index keeps where a blob is. The first three are MediaPlace's.
enum : uint8_t { kKeptAbsent = 0, kKeptFile = 1, kKeptDecoded = 2, kKeptInShard = 3 };

bool is_bytes_and_path(const arrow::DataType& type) {
  if (type.id() != arrow::Type::STRUCT || type.num_fields() != 2) return false;
  const auto& fields = static_cast<const arrow::StructType&>(type);
  const auto bytes = fields.GetFieldByName("bytes"), path = fields.GetFieldByName("path");
  return bytes != nullptr && path != nullptr && is_bytes(*bytes->type()) && is_bytes(*path->type());
}

bool is_text(const arrow::DataType& type) {
  return type.id() == arrow::Type::STRING || type.id() == arrow::Type::LARGE_STRING;
}

// Both string and binary arrays have the layout of BinaryArray.
std::string_view value_at(const arrow::Array& array, int64_t row) {
  if (is_large(*array.type()))
    return static_cast<const arrow::LargeBinaryArray&>(array).GetView(row);
  return static_cast<const arrow::BinaryArray&>(array).GetView(row);
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
      const MediaCell cell = columns[field].at(row);
      OVERLORD_TRY(const std::string fault, add_cell(field, cell, &places));
      if (fault.empty()) continue;
      notes_->drop_row();
      for (size_t i = 0; i < columns.size(); ++i) extra_->u8(kKeptAbsent);
      return fault;
    }
    extra_->raw(places.bytes().data(), places.size());
    return std::string();
  }

 private:
  Result<std::string> add_cell(size_t field, const MediaCell& cell, ByteWriter* places) {
    switch (cell.kind) {
      case MediaCell::Kind::kAbsent:
        places->u8(kKeptAbsent);
        return std::string();
      case MediaCell::Kind::kBytes:
        add_bytes(cell.value, places);
        return notes_->note(field, cell.value.substr(0, notes_->head_bytes()), cell.value.size());
      case MediaCell::Kind::kPath:
        return add_file(field, cell.value, places);
    }
    return std::string();
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
    const uint64_t head_bytes = std::min<uint64_t>(notes_->head_bytes(), size);
    runtime::Bytes head;
    if (head_bytes > 0) {
      OVERLORD_TRY(head, job_.read(*info, 0, head_bytes));
    }
    return notes_->note(field, std::string_view(head.data, head.size), size);
  }

  const ShardJob& job_;
  const ShardOffset& offset_of_;
  MediaNotes* const notes_;
  ByteWriter* const extra_;
};

}  // namespace

Status check_media_type(const ShardJob& job, const arrow::Field& field) {
  if (is_bytes(*field.type()) || is_bytes_and_path(*field.type())) return {};
  return job.error("column " + quote(field.name()) + " is " + field.type()->ToString() +
                       ", media must be binary, struct{bytes, path} or paths (string)",
                   Code::kInvalidArgument);
}

MediaCell MediaColumn::at(int64_t row) const {
  using enum MediaCell::Kind;
  int chunk = 0;
  while (row >= column_.chunk(chunk)->length()) row -= column_.chunk(chunk++)->length();
  const arrow::Array& array = *column_.chunk(chunk);
  if (array.IsNull(row)) return {};
  if (array.type_id() != arrow::Type::STRUCT) {
    return {paths_ ? kPath : kBytes, value_at(array, row)};
  }
  const auto& cells = static_cast<const arrow::StructArray&>(array);
  const auto bytes = cells.GetFieldByName("bytes"), path = cells.GetFieldByName("path");
  if (!bytes->IsNull(row)) return {kBytes, value_at(*bytes, row)};
  if (!path->IsNull(row)) return {kPath, value_at(*path, row)};
  return {};
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
    columns.emplace_back(*held.back(), is_text(*column->type()));
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

bool read_media_rows(ByteReader* extra, const model::ShardEntry& shard, size_t rows, size_t fields,
                     std::vector<MediaPlace>* out) {
  if (fields > 0 && rows > extra->remaining() / fields) return false;
  out->resize(rows * fields);
  for (MediaPlace& place : *out) {
    switch (extra->u8()) {
      case kKeptAbsent:
        break;
      case kKeptDecoded:
        place.kind = Kind::kDecoded;
        place.size_bytes = extra->varint();
        break;
      case kKeptInShard:
        place.kind = Kind::kRange;
        place.uri = shard.uri;
        place.expected = shard.fingerprint;
        place.offset = extra->varint();
        place.size_bytes = extra->varint();
        if (place.offset > place.expected.size_bytes ||
            place.size_bytes > place.expected.size_bytes - place.offset) {
          return false;
        }
        break;
      case kKeptFile: {
        const auto uri = beside_shard(shard.uri, extra->text());
        if (!uri.ok()) return false;
        place.kind = Kind::kRange;
        place.uri = *uri;
        place.expected = layout::read_fingerprint(extra);
        place.size_bytes = place.expected.size_bytes;
        break;
      }
      default:
        return false;
    }
  }
  return !extra->failed();
}

std::vector<MediaPlace> wanted_places(std::vector<MediaPlace> all, size_t fields,
                                      const std::vector<uint32_t>& rows) {
  if (rows.empty()) return all;
  std::vector<MediaPlace> out;
  for (const uint32_t row : rows) {
    for (size_t field = 0; field < fields; ++field) {
      out.push_back(std::move(all[row * fields + field]));
    }
  }
  return out;
}

Result<std::vector<runtime::Bytes>> blobs_of(const arrow::Table& table,
                                             const std::shared_ptr<const void>& holder,
                                             const std::vector<model::MediaField>& media,
                                             const std::vector<MediaPlace>& places,
                                             const std::vector<uint32_t>& rows) {
  std::vector<uint32_t> wanted = rows;
  if (wanted.empty()) {
    wanted.resize(static_cast<size_t>(table.num_rows()));
    std::iota(wanted.begin(), wanted.end(), 0u);
  }
  std::vector<runtime::Bytes> blobs(places.size());
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i].kind != Kind::kDecoded) continue;
    const auto column = table.GetColumnByName(media[i % media.size()].from.front());
    if (column == nullptr) return bad_data("lacks a media column");
    const MediaCell cell = MediaColumn(*column, false).at(wanted[i / media.size()]);
    if (cell.kind != MediaCell::Kind::kBytes || cell.value.size() != places[i].size_bytes) {
      return bad_data("media are not what was indexed; run `overlord index`");
    }
    blobs[i] = {holder, cell.value.data(), cell.value.size()};
    // An empty blob is there all the same.
    if (blobs[i].data == nullptr) blobs[i] = runtime::Bytes::copy_of("");
  }
  return blobs;
}

}  // namespace overlord::columnar
