#include "overlord/columnar/media_columns.h"

#include <arrow/array.h>

#include <algorithm>

#include "overlord/columnar/formats/arrow/column_types.h"
#include "overlord/columnar/media_files.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {
namespace {

using runtime::quote;
using Kind = MediaPlace::Kind;

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

// Seconds in a column of numbers.
template <typename ArrayType>
double number_in(const arrow::Array& array, int64_t row) {
  return static_cast<double>(static_cast<const ArrayType&>(array).Value(row));
}

std::optional<double> seconds_at(const arrow::ChunkedArray* column, int64_t row) {
  if (column == nullptr) return std::nullopt;
  int chunk = 0;
  while (row >= column->chunk(chunk)->length()) row -= column->chunk(chunk++)->length();
  const arrow::Array& array = *column->chunk(chunk);
  if (array.IsNull(row)) return std::nullopt;
  switch (array.type_id()) {
    case arrow::Type::DOUBLE:
      return number_in<arrow::DoubleArray>(array, row);
    case arrow::Type::FLOAT:
      return number_in<arrow::FloatArray>(array, row);
    case arrow::Type::INT64:
      return number_in<arrow::Int64Array>(array, row);
    default:
      return number_in<arrow::Int32Array>(array, row);
  }
}

bool is_seconds(const arrow::DataType& type) {
  return type.id() == arrow::Type::DOUBLE || type.id() == arrow::Type::FLOAT ||
         type.id() == arrow::Type::INT64 || type.id() == arrow::Type::INT32;
}

// Columns of one field: its blobs, and perhaps where their part begins and ends.
struct FieldColumns {
  MediaColumn blobs;
  const arrow::ChunkedArray* start = nullptr;
  const arrow::ChunkedArray* end = nullptr;
};

class RowNotes {
 public:
  RowNotes(const ShardJob& job, const ShardOffset& offset_of, MediaNotes* notes, ByteWriter* extra)
      : job_(job), offset_of_(offset_of), notes_(notes), extra_(extra) {}

  // What is wrong with the row, or empty; a Status where the store fails.
  Result<std::string> add(const std::vector<FieldColumns>& columns, int64_t row) {
    notes_->begin_row();
    ByteWriter places;
    for (size_t field = 0; field < columns.size(); ++field) {
      std::string fault = take_part(job_.source->media[field],
                                    seconds_at(columns[field].start, row),
                                    seconds_at(columns[field].end, row), &part_);
      if (fault.empty()) {
        OVERLORD_TRY(fault, add_cells(field, columns[field].blobs, row, &places));
      }
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
    const size_t size = cell.value.size();
    if (const auto offset = offset_of_ ? offset_of_(cell.value) : std::nullopt) {
      keep_in_shard(*offset, size, places);
    } else {
      keep_decoded(size, places);
    }
    OVERLORD_TRY(const BlobNote note, notes_->look(field, {cell.value, size, nullptr}));
    return notes_->add(field, note, part_);
  }

  Result<std::string> add_file(size_t field, std::string_view path, ByteWriter* places) {
    OVERLORD_TRY(const NamedBlob blob, look_at_path(job_, *notes_, field, path));
    if (!blob.fault.empty()) return blob.fault;
    keep_named(path, blob.file, places);
    return notes_->add(field, blob.note, part_);
  }

  const ShardJob& job_;
  const ShardOffset& offset_of_;
  MediaNotes* const notes_;
  ByteWriter* const extra_;
  std::vector<MediaCell> cells_;  // of the row and field in hand
  BlobPart part_;                 // ditto
};

}  // namespace

std::vector<std::string> media_column_names(const model::Source& source) {
  std::vector<std::string> names;
  for (const model::MediaField& field : source.media) {
    for (const std::string* name : {&field.from.front(), &field.start, &field.end}) {
      const bool is_new = std::find(names.begin(), names.end(), *name) == names.end();
      if (!name->empty() && is_new) names.push_back(*name);
    }
  }
  return names;
}

Status check_media_type(const ShardJob& job, const arrow::Field& field) {
  const arrow::DataType& type = *field.type();
  const bool is_list = type.id() == arrow::Type::LIST;
  const std::string column = "column " + quote(field.name()) + " is " + type.ToString();
  for (const model::MediaField& media : job.source->media) {
    const bool seconds = media.start == field.name() || media.end == field.name();
    if (seconds && !is_seconds(type)) {
      return job.error(column + ", where a part begins or ends must be seconds: a floating " +
                           "number or an integer of 32 or 64 bits",
                       Code::kInvalidArgument);
    }
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

Status note_media_rows(const ShardJob& job, const arrow::Table& table, uint64_t first_row,
                       const ShardOffset& offset_of, MediaNotes* notes, ShardPart* part,
                       ByteWriter* extra) {
  // The table holds its columns.
  const auto find = [&](const std::string& name) -> const arrow::ChunkedArray* {
    const int at = name.empty() ? -1 : table.schema()->GetFieldIndex(name);
    return at < 0 ? nullptr : table.column(at).get();
  };
  std::vector<FieldColumns> columns;
  for (const model::MediaField& field : job.source->media) {
    for (const std::string* name : {&field.from.front(), &field.start, &field.end}) {
      if (!name->empty() && find(*name) == nullptr) {
        return job.error("lacks the media column " + quote(*name));
      }
    }
    const arrow::ChunkedArray& column = *find(field.from.front());
    columns.push_back({MediaColumn(column, is_text(entry_type(*column.type()))), find(field.start),
                       find(field.end)});
  }
  RowNotes rows(job, offset_of, notes, extra);
  for (int64_t row = 0; row < table.num_rows(); ++row) {
    OVERLORD_TRY(const std::string fault, rows.add(columns, row));
    if (fault.empty()) continue;
    note_bad_row(job, first_row + static_cast<uint64_t>(row), fault, part);
  }
  return {};
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
