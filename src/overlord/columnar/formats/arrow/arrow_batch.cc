#include "overlord/columnar/formats/arrow/arrow_batch.h"

#include <arrow/array/concatenate.h>
#include <arrow/extension_type.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <arrow/type_traits.h>

#include <algorithm>
#include <cstdlib>

#include "overlord/base/bytes.h"
#include "overlord/columnar/formats/arrow/column_types.h"
#include "overlord/columnar/formats/arrow/table_schema_text.h"
#include "overlord/columnar/streams/joined_ranges.h"
#include "overlord/columnar/streams/ranges_file.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {
namespace {

using runtime::quote;

constexpr size_t kColumnsShown = 20;
constexpr uint64_t kLengthPrefixBytes = 8;  // of a compressed buffer: its size when it is not

std::string column_names(const arrow::Schema& schema) {
  std::string names;
  for (int i = 0; i < schema.num_fields(); ++i) {
    if (static_cast<size_t>(i) == kColumnsShown) return names + ", ...";
    names += (i > 0 ? ", " : "") + quote(schema.field(i)->name(), 60);
  }
  return names;
}

// Counts the buffers of columns in the order in which a batch has them.
class BufferCount {
 public:
  explicit BufferCount(const BatchHeader& header) : header_(header) {}

  // nullopt: the header knows of fewer columns.
  std::optional<size_t> of(const arrow::DataType& type) {
    switch (type.id()) {
      case arrow::Type::EXTENSION:
        return of(*static_cast<const arrow::ExtensionType&>(type).storage_type());
      case arrow::Type::DICTIONARY:
        return 2;  // validity and indices; the values are messages of their own
      case arrow::Type::NA:
        return 0;
      case arrow::Type::RUN_END_ENCODED:
        return with_children(0, type);
      case arrow::Type::SPARSE_UNION:
        return with_children(1, type);
      case arrow::Type::DENSE_UNION:
        return with_children(2, type);
      case arrow::Type::STRING_VIEW:
      case arrow::Type::BINARY_VIEW:
        if (variadic_ == header_.variadic_counts.size()) return std::nullopt;
        return 2 +
               std::min<uint64_t>(header_.variadic_counts[variadic_++], header_.buffers.size() + 1);
      default:
        return with_children(type.layout().buffers.size(), type);
    }
  }

 private:
  std::optional<size_t> with_children(size_t count, const arrow::DataType& type) {
    for (const auto& child : type.fields()) {
      const std::optional<size_t> more = of(*child->type());
      if (!more) return std::nullopt;
      count += *more;
    }
    return count;
  }

  const BatchHeader& header_;
  size_t variadic_ = 0;
};

// Which of the buffers of a list of struct{bytes, path} has the bytes.
std::optional<size_t> buffer_of_bytes(const arrow::DataType& images, BufferCount count) {
  if (images.id() != arrow::Type::LIST && images.id() != arrow::Type::LARGE_LIST) return {};
  const arrow::DataType& image = *images.field(0)->type();
  if (image.id() != arrow::Type::STRUCT) return {};
  size_t at = 3;  // after the lists' validity and offsets, and the structs' validity
  for (const auto& field : image.fields()) {
    if (field->name() == "bytes" && is_bytes(*field->type())) return at + 2;
    at += count.of(*field->type()).value_or(0);
  }
  return {};
}

struct WantedBuffer {
  BatchBuffer place;
  bool spare = false;  // what is in it does not matter
};

// The buffers of the wanted columns; nullopt: the header has other columns than the schema.
std::optional<std::vector<WantedBuffer>> wanted_buffers(const ArrowColumns& columns,
                                                        const BatchHeader& header) {
  std::vector<WantedBuffer> wanted;
  BufferCount count(header);
  size_t next = 0;
  for (int i = 0; i < columns.schema->num_fields(); ++i) {
    const std::optional<size_t> buffers = count.of(*columns.schema->field(i)->type());
    if (!buffers || *buffers > header.buffers.size() - next) return std::nullopt;
    if (std::find(columns.fields.begin(), columns.fields.end(), i) != columns.fields.end()) {
      std::optional<size_t> spare;  // what is compressed has to decompress
      if (columns.images == i && !header.compressed) {
        spare = buffer_of_bytes(*columns.schema->field(i)->type(), BufferCount(header));
      }
      for (size_t b = 0; b < *buffers; ++b) {
        wanted.push_back({header.buffers[next + b], spare == b});
      }
    }
    next += *buffers;
  }
  if (next != header.buffers.size()) return std::nullopt;
  return wanted;
}

// A compressed buffer says first how long it gets; -1: it is not compressed after all.
Result<uint64_t> decoded_size(const ShardJob& job, const BatchMessage& batch,
                              const BatchBuffer& buffer) {
  if (!batch.header.compressed || buffer.size_bytes == 0) return buffer.size_bytes;
  const auto broken = [&] {
    return job.error("record batch at offset " + std::to_string(batch.offset) +
                     " has a compressed buffer of a broken size");
  };
  if (buffer.size_bytes < kLengthPrefixBytes) return broken();
  OVERLORD_TRY(const runtime::Bytes prefix,
               job.read(job.file, batch.body_offset + buffer.offset, kLengthPrefixBytes));
  ByteReader reader(std::string_view(prefix.data, prefix.size));
  const auto size = static_cast<int64_t>(reader.u64());
  if (size == -1) return buffer.size_bytes - kLengthPrefixBytes;
  if (size < 0) return broken();
  return static_cast<uint64_t>(size);
}

}  // namespace

std::vector<std::string> row_column_names(const model::Source& source,
                                          const arrow::Schema& schema) {
  std::vector<std::string> names;
  for (size_t i = 0; i < source.schema.columns.size(); ++i) {
    const std::string& name = source.schema.columns[i];
    if (i < source.schema.expected || schema.GetFieldIndex(name) >= 0) names.push_back(name);
  }
  if (source.schema.declared()) return names;
  for (const std::string* name : {&source.text_column, &source.token_column, &source.mask_column}) {
    if (!name->empty()) names.push_back(*name);
  }
  return names;
}

ArrowColumns find_columns(const std::shared_ptr<arrow::Schema>& schema,
                          const std::vector<std::string>& names, const model::Source& source) {
  ArrowColumns columns;
  arrow::FieldVector fields = schema->fields();
  for (int i = 0; i < schema->num_fields(); ++i) {
    std::shared_ptr<arrow::Field>& field = fields[static_cast<size_t>(i)];
    if (std::find(names.begin(), names.end(), field->name()) == names.end()) continue;
    columns.fields.push_back(i);
    const std::vector<std::string>& own = source.schema.columns;
    const bool text = field->name() == source.text_column ||
                      std::find(own.begin(), own.end(), field->name()) != own.end();
    std::shared_ptr<arrow::DataType> type = field->type();
    const auto plain = plain_type(type);
    columns.plain.push_back(plain == type ? nullptr : text ? without_strings(plain) : plain);
    columns.values.emplace_back();
    if (type->id() == arrow::Type::DICTIONARY) {
      const auto& dictionary = static_cast<const arrow::DictionaryType&>(*type);
      const auto& values = dictionary.value_type();
      columns.values.back() = text ? without_strings(values) : values;
      type = dictionary.index_type();
    } else if (text) {
      type = without_strings(type);
    }
    field = field->WithType(type);
  }
  columns.schema = arrow::schema(std::move(fields));
  const bool rows = std::find(names.begin(), names.end(), source.text_column) != names.end();
  if (rows && source.schema.text == model::RowText::kInterleaved) {
    columns.images = columns.schema->GetFieldIndex(source.schema.columns[1]);
  }
  return columns;
}

Status check_columns(const ShardJob& job, const arrow::Schema& schema,
                     const std::vector<std::string>& names, const FieldCheck& check,
                     std::string* description) {
  for (const std::string& name : names) {
    const std::vector<int> found = schema.GetAllFieldIndices(name);
    if (found.empty()) {
      return job.error("has no column " + quote(name) + "; it has " + column_names(schema),
                       Code::kNotFound);
    }
    if (found.size() > 1) {
      return job.error("has column " + quote(name) + " twice", Code::kInvalidArgument);
    }
    const arrow::Field& field = *schema.field(found.front());
    if (has_extension(field)) {
      return job.error("column " + quote(name) +
                           " has an extension type, which is never loaded; write it as its "
                           "storage type",
                       Code::kInvalidArgument);
    }
    const auto plain = field.WithType(plain_type(field.type()));
    if (field.type()->id() == arrow::Type::DICTIONARY && !is_bytes(*plain->type()) &&
        !arrow::is_integer(plain->type()->id())) {
      return job.error("column " + quote(name) + " is dictionary encoded (" +
                           field.type()->ToString() +
                           "), which is read of strings, bytes and integers; write it as its "
                           "value type",
                       Code::kInvalidArgument);
    }
    OVERLORD_RETURN_IF_ERROR(check(job, *plain));
    *description += (description->empty() ? "" : ", ") + describe_column(*plain);
  }
  return {};
}

std::string keep_schema(const std::string& description, const arrow::Schema& schema) {
  ByteWriter out;
  out.text(description);
  // What others keep beside a schema (pandas, huggingface) is of no use here, and long.
  arrow::FieldVector fields;
  for (const auto& field : schema.fields()) fields.push_back(field->RemoveMetadata());
  const auto bytes = arrow::ipc::SerializeSchema(*arrow::schema(std::move(fields)));
  if (bytes.ok()) out.raw((*bytes)->data(), static_cast<size_t>((*bytes)->size()));
  return out.take();
}

std::string_view kept_description(std::string_view shard_extra) {
  return ByteReader(shard_extra).text();
}

std::shared_ptr<arrow::Schema> kept_schema(std::string_view shard_extra) {
  ByteReader in(shard_extra);
  in.text();
  const std::string_view bytes = in.raw(in.remaining());
  arrow::io::BufferReader stream(arrow::Buffer::FromString(std::string(bytes)));
  arrow::ipc::DictionaryMemo memo;
  auto schema = arrow::ipc::ReadSchema(&stream, &memo);
  return schema.ok() ? std::move(*schema) : nullptr;
}

Result<BatchPlaces> batch_places(const ShardJob& job, const ArrowColumns& columns,
                                 const BatchMessage& batch,
                                 const std::vector<std::vector<DictionaryPlace>>& dictionaries) {
  const auto buffers = wanted_buffers(columns, batch.header);
  if (!buffers) {
    return job.error("record batch at offset " + std::to_string(batch.offset) +
                     " has other buffers than its schema asks for");
  }
  BatchPlaces places;
  JoinedRanges joined(0);
  joined.want(batch.metadata_offset, batch.metadata.size());
  ByteWriter metadata;
  metadata.varint(batch.metadata_offset);
  metadata.varint(batch.metadata.size());
  metadata.varint(batch.body_offset);
  for (const std::vector<DictionaryPlace>& dictionary : dictionaries) {
    write_dictionary(dictionary, &metadata);
    for (const DictionaryPlace& place : dictionary) {
      joined.want(place.metadata_offset, place.metadata_bytes);
      joined.want(place.body_offset, place.body_bytes);
      BatchMessage values;
      values.offset = place.metadata_offset;
      values.body_offset = place.body_offset;
      values.header = place.header;
      for (const BatchBuffer& buffer : place.header.buffers) {
        OVERLORD_TRY(const uint64_t bytes, decoded_size(job, values, buffer));
        places.decoded_bytes += std::min(bytes, ~uint64_t{0} - places.decoded_bytes);
      }
    }
  }
  for (const auto& [buffer, spare] : *buffers) {
    const uint64_t offset = batch.body_offset + buffer.offset;
    if (spare) {
      metadata.varint(offset);
      metadata.varint(buffer.size_bytes);
      continue;
    }
    joined.want(offset, buffer.size_bytes);
    OVERLORD_TRY(const uint64_t bytes, decoded_size(job, batch, buffer));
    places.decoded_bytes += std::min(bytes, ~uint64_t{0} - places.decoded_bytes);
  }
  places.ranges = joined.ranges();
  places.metadata = metadata.take();
  return places;
}

namespace {

// The pieces of a shard that were read of it, and batches out of them.
class ShardPieces {
 public:
  ShardPieces(const std::vector<RangeRequest>& ranges, const std::vector<runtime::Bytes>& pieces,
              uint64_t shard_bytes, arrow::MemoryPool* memory)
      : ranges_(ranges), pieces_(pieces), shard_bytes_(shard_bytes), memory_(memory) {}

  // What was left where it is gets memory that nobody looks into, so that no page of it is made.
  arrow::Status add_spare(uint64_t offset, uint64_t size_bytes) {
    if (offset > shard_bytes_ || size_bytes > shard_bytes_ - offset) return misplaced();
    if (size_bytes == 0) return arrow::Status::OK();
    const std::shared_ptr<void> zeros(std::calloc(size_bytes, 1), std::free);
    if (!zeros) return arrow::Status::OutOfMemory("no memory to decode it");
    ranges_.push_back({0, offset, size_bytes});
    pieces_.push_back({zeros, static_cast<const char*>(zeros.get()), size_bytes});
    return arrow::Status::OK();
  }

  static arrow::Status misplaced() {
    return arrow::Status::Invalid("the index does not say where it is");
  }

  arrow::Result<std::string> header(uint64_t offset, uint64_t size_bytes) const {
    if (offset > shard_bytes_ || size_bytes > shard_bytes_ - offset) return misplaced();
    RangesFile whole(shard_bytes_, ranges_, pieces_);
    std::string header(size_bytes, '\0');  // a copy: its alignment is ours
    ARROW_RETURN_NOT_OK(whole.ReadAt(static_cast<int64_t>(offset), static_cast<int64_t>(size_bytes),
                                     header.data()));
    return header;
  }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> batch(
      std::string header, uint64_t body, const std::shared_ptr<arrow::Schema>& schema,
      const std::vector<int>& fields) const {
    if (body > shard_bytes_) return misplaced();
    arrow::ipc::IpcReadOptions options;
    options.memory_pool = memory_;
    options.included_fields = fields;
    options.use_threads = false;
    options.ensure_alignment = arrow::ipc::Alignment::kDataTypeSpecificAlignment;
    const arrow::ipc::DictionaryMemo memo;
    RangesFile file(shard_bytes_, ranges_, pieces_, body);
    ARROW_ASSIGN_OR_RAISE(const auto batch,
                          arrow::ipc::ReadRecordBatch(*arrow::Buffer::FromString(std::move(header)),
                                                      schema, &memo, options, &file));
    ARROW_RETURN_NOT_OK(batch->ValidateFull());
    return batch;
  }

  // The values of a dictionary, which may be told in several messages.
  arrow::Result<std::shared_ptr<arrow::Array>> values(
      const std::vector<DictionaryPlace>& places,
      const std::shared_ptr<arrow::DataType>& type) const {
    const auto schema = arrow::schema({arrow::field("values", type)});
    arrow::ArrayVector parts;
    for (const DictionaryPlace& place : places) {
      ARROW_ASSIGN_OR_RAISE(const std::string told,
                            header(place.metadata_offset, place.metadata_bytes));
      std::optional<std::string> inner = batch_in_dictionary(told);
      if (!inner) return arrow::Status::Invalid("has a dictionary without values");
      ARROW_ASSIGN_OR_RAISE(const auto made,
                            batch(std::move(*inner), place.body_offset, schema, {0}));
      parts.push_back(made->column(0));
    }
    if (parts.size() == 1) return parts.front();
    return arrow::Concatenate(parts, memory_);
  }

 private:
  std::vector<RangeRequest> ranges_;
  std::vector<runtime::Bytes> pieces_;
  const uint64_t shard_bytes_;
  arrow::MemoryPool* const memory_;
};

}  // namespace

arrow::Result<std::shared_ptr<arrow::Table>> read_batch(const ArrowColumns& columns,
                                                        const BlockRanges& block,
                                                        const std::vector<runtime::Bytes>& pieces,
                                                        uint64_t shard_bytes,
                                                        arrow::MemoryPool* memory) {
  ByteReader in(block.metadata);
  const uint64_t offset = in.varint();
  const uint64_t size = in.varint();
  const uint64_t body = in.varint();
  std::vector<std::vector<DictionaryPlace>> dictionaries(columns.fields.size());
  for (size_t i = 0; i < dictionaries.size(); ++i) {
    if (columns.values[i] == nullptr) continue;
    if (!read_dictionary(&in, shard_bytes, &dictionaries[i])) return ShardPieces::misplaced();
  }
  ShardPieces shard(block.ranges, pieces, shard_bytes, memory);
  while (!in.failed() && !in.at_end()) {
    const uint64_t at = in.varint();
    const uint64_t bytes = in.varint();
    ARROW_RETURN_NOT_OK(shard.add_spare(at, bytes));
  }
  if (in.failed()) return ShardPieces::misplaced();
  ARROW_ASSIGN_OR_RAISE(std::string header, shard.header(offset, size));
  ARROW_ASSIGN_OR_RAISE(const auto batch,
                        shard.batch(std::move(header), body, columns.schema, columns.fields));
  ARROW_ASSIGN_OR_RAISE(auto table, arrow::Table::FromRecordBatches({batch}));
  for (size_t i = 0; i < columns.fields.size(); ++i) {
    if (columns.plain[i] == nullptr) continue;
    std::shared_ptr<arrow::Array> values;
    if (columns.values[i] != nullptr) {
      ARROW_ASSIGN_OR_RAISE(values, shard.values(dictionaries[i], columns.values[i]));
    }
    const auto at = static_cast<int>(i);
    ARROW_ASSIGN_OR_RAISE(auto plain, plain_column(batch->column(at), values, memory));
    const auto field = batch->schema()->field(at)->WithType(plain->type());
    ARROW_ASSIGN_OR_RAISE(
        table, table->SetColumn(at, field, std::make_shared<arrow::ChunkedArray>(plain)));
  }
  return table;
}

}  // namespace overlord::columnar
