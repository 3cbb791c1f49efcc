// Indexing of Arrow IPC shards: headers are walked, bodies stepped over. What stays of a record
// batch is where the wanted columns are; metadata and media columns are read once, here.
#include <arrow/buffer.h>

#include <limits>
#include <map>
#include <new>

#include "overlord/columnar/formats/arrow/arrow_batch.h"
#include "overlord/columnar/formats/arrow/arrow_memory.h"
#include "overlord/columnar/formats/arrow/arrow_messages.h"
#include "overlord/columnar/formats/arrow/arrow_reader.h"
#include "overlord/columnar/formats/arrow/column_types.h"
#include "overlord/columnar/formats/arrow/table_schema_text.h"
#include "overlord/columnar/media_columns.h"
#include "overlord/columnar/metadata_columns.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {
namespace {

constexpr uint64_t kRowOverheadBytes = 8;  // what a row costs decoded, even when it is empty
constexpr int64_t kFreeBytes = 64 << 20;

// Where bytes lie in the shard, when they are a view of one of the pieces that were read of it.
std::optional<uint64_t> offset_in(const std::vector<RangeRequest>& ranges,
                                  const std::vector<runtime::Bytes>& pieces,
                                  std::string_view bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
  for (size_t i = 0; i < pieces.size(); ++i) {
    const auto piece = reinterpret_cast<uintptr_t>(pieces[i].data);
    if (begin < piece || begin - piece > pieces[i].size) continue;
    if (bytes.size() > pieces[i].size - (begin - piece)) continue;
    return ranges[i].offset + (begin - piece);
  }
  return std::nullopt;
}

class Batches {
 public:
  Batches(const ShardJob& job, ShardPart* part) : job_(job), part_(part), notes_(job, part) {}

  Status begin(const std::shared_ptr<arrow::Schema>& schema,
               const arrow::ipc::DictionaryFieldMapper& ids) {
    const model::Source& source = *job_.source;
    const std::vector<std::string> row_names = row_column_names(source, *schema);
    const FieldCheck check_row = source.schema.declared() ? check_schema_type : check_row_type;
    const std::vector<std::string> media_names = media_column_names(source);
    std::string description;
    OVERLORD_RETURN_IF_ERROR(check_columns(job_, *schema, row_names, check_row, &description));
    std::string unused;  // shards may differ in the widths of their integers
    OVERLORD_RETURN_IF_ERROR(
        check_columns(job_, *schema, source.metadata_columns, check_metadata_type, &unused));
    std::string media;
    OVERLORD_RETURN_IF_ERROR(check_columns(job_, *schema, media_names, check_media_type, &media));
    if (!media.empty()) description += "; media " + media;
    part_->extra = keep_schema(description, *schema);
    rows_ = find_columns(schema, row_names, source);
    metadata_ = find_columns(schema, source.metadata_columns, source);
    media_ = find_columns(schema, media_names, source);
    for (const ArrowColumns* columns : {&rows_, &metadata_, &media_}) {
      for (size_t i = 0; i < columns->fields.size(); ++i) {
        if (columns->values[i] == nullptr) continue;
        const int field = columns->fields[i];
        const auto id = ids.GetFieldId({field});
        if (!id.ok()) return job_.error("has a broken schema: " + id.status().message());
        ids_[field] = *id;
      }
    }
    return {};
  }

  bool wants_dictionaries() const { return !ids_.empty(); }

  Status add_dictionary(const BatchMessage& values, int64_t id, bool is_delta) {
    known_.take(values, id, is_delta);
    return {};
  }

  Status add(const BatchMessage& batch) {
    OVERLORD_RETURN_IF_ERROR(job_.check_cancelled());
    const uint64_t rows = batch.header.rows;
    if (rows == 0) return {};
    const uint64_t most = job_.source->limits.max_block_bytes;
    OVERLORD_TRY(const BatchPlaces places, places_of(rows_, batch));
    // Every row takes a byte at least: its offset, or a list that is not empty.
    if (rows >= std::numeric_limits<uint32_t>::max() || rows > most / kRowOverheadBytes ||
        rows > places.decoded_bytes) {
      return error(batch, "declares " + std::to_string(rows) + " rows, more than its columns or " +
                              "limits.max_block (" + std::to_string(most) + ") can hold");
    }
    OVERLORD_RETURN_IF_ERROR(check_size(batch, "in the needed columns", places.decoded_bytes));
    if (!metadata_.fields.empty()) {
      OVERLORD_TRY(const Read read, read_columns(batch, metadata_, "of metadata"));
      OVERLORD_RETURN_IF_ERROR(add_metadata_rows(job_, *read.table, part_->entry.rows, part_));
    }
    write_block_ranges({places.ranges, places.metadata}, &extras_);
    if (!media_.fields.empty()) OVERLORD_RETURN_IF_ERROR(add_media(batch));
    part_->block_extra_ends.push_back(extras_.size());
    part_->blocks.push_back(
        {part_->entry.rows, static_cast<uint32_t>(rows), 0, batch.offset, places.decoded_bytes});
    part_->entry.rows += rows;
    return {};
  }

  void finish() { part_->block_extras = extras_.take(); }

 private:
  struct Read {
    BatchPlaces places;
    std::vector<runtime::Bytes> pieces;
    std::unique_ptr<ArrowMemory> memory;  // what a table lies in must die after it
    std::shared_ptr<arrow::Table> table;
  };

  Status error(const BatchMessage& batch, const std::string& what) const {
    return job_.error("record batch at offset " + std::to_string(batch.offset) + " " + what);
  }

  Status check_size(const BatchMessage& batch, const char* what, uint64_t decoded) const {
    const uint64_t most = job_.source->limits.max_block_bytes;
    if (decoded <= most) return {};
    return error(batch, "has " + std::to_string(decoded) + " bytes " + what + ", over " +
                            "limits.max_block (" + std::to_string(most) +
                            "); write smaller batches or raise the limit");
  }

  Result<BatchPlaces> places_of(const ArrowColumns& columns, const BatchMessage& batch) const {
    std::vector<std::vector<DictionaryPlace>> dictionaries;
    for (size_t i = 0; i < columns.fields.size(); ++i) {
      if (columns.values[i] == nullptr) continue;
      const int field = columns.fields[i];
      const auto* const known = known_.find(ids_.at(field));
      if (known == nullptr) {
        return error(batch, "comes before the dictionary of column " +
                                runtime::quote(columns.schema->field(field)->name()));
      }
      dictionaries.push_back(*known);
    }
    return batch_places(job_, columns, batch, dictionaries);
  }

  Result<Read> read_columns(const BatchMessage& batch, const ArrowColumns& columns,
                            const char* what) const {
    Read read;
    OVERLORD_TRY(read.places, places_of(columns, batch));
    OVERLORD_RETURN_IF_ERROR(check_size(batch, what, read.places.decoded_bytes));
    for (const RangeRequest& range : read.places.ranges) {
      OVERLORD_TRY(runtime::Bytes bytes, job_.read(job_.file, range.offset, range.size_bytes));
      read.pieces.push_back(std::move(bytes));
    }
    read.memory = std::make_unique<ArrowMemory>(
        nullptr, 2 * static_cast<int64_t>(read.places.decoded_bytes) + kFreeBytes);
    auto table = read_batch(columns, {read.places.ranges, read.places.metadata}, read.pieces,
                            job_.file.fingerprint.size_bytes, read.memory.get());
    if (!table.ok()) return error(batch, "is broken: " + table.status().message());
    if (static_cast<uint64_t>((*table)->num_rows()) != batch.header.rows) {
      return error(batch, "has other rows than it says");
    }
    read.table = std::move(*table);
    return read;
  }

  // Media are looked at once, here: what a probe sees, and whether they lie as they are.
  Status add_media(const BatchMessage& batch) {
    OVERLORD_TRY(const Read read, read_columns(batch, media_, "of media"));
    write_block_ranges({read.places.ranges, read.places.metadata}, &extras_);
    const ShardOffset offset_of = [&](std::string_view bytes) {
      return offset_in(read.places.ranges, read.pieces, bytes);
    };
    return note_media_rows(job_, *read.table, part_->entry.rows, offset_of, &notes_, part_,
                           &extras_);
  }

  const ShardJob& job_;
  ShardPart* const part_;
  MediaNotes notes_;
  ArrowColumns rows_, metadata_, media_;
  std::map<int, int64_t> ids_;  // dictionaries of the wanted columns
  KnownDictionaries known_;
  ByteWriter extras_;
};

}  // namespace

Result<ShardPart> index_arrow_shard(const ShardJob& job) {
  ShardPart part;
  part.entry.uri = job.file.uri;
  part.entry.fingerprint = job.file.fingerprint;
  part.columns.resize(job.source->metadata_columns.size());
  part.columns_seen = ~uint64_t{0} >> (64 - model::kMaxMetadataColumns);
  Batches batches(job, &part);
  try {
    OVERLORD_TRY(part.scanned,
                 visit_arrow_shard(job, {[&](const auto& schema, const auto& ids) {
                                           return batches.begin(schema, ids);
                                         },
                                         [&](const auto& batch) { return batches.add(batch); },
                                         [&] { return batches.wants_dictionaries(); },
                                         [&](const auto& values, int64_t id, bool is_delta) {
                                           return batches.add_dictionary(values, id, is_delta);
                                         }}));
  } catch (const std::bad_alloc&) {
    return job.error("no memory to index it", Code::kResource);
  } catch (const std::exception& error) {
    return job.error(std::string("is broken: ") + error.what());
  }
  batches.finish();
  return part;
}

}  // namespace overlord::columnar
