#include "overlord/columnar/formats/arrow/arrow_dictionaries.h"

#include <arrow/builder.h>
#include <arrow/type_traits.h>

#include "overlord/columnar/formats/arrow/flat_table.h"

namespace overlord::columnar {
namespace {

// Fields of the format's tables, as its schema numbers them, and its number for a record batch.
constexpr uint32_t kVersion = 0, kHeader = 2, kBodyLength = 3;
constexpr uint32_t kDictionaryData = 1;
constexpr uint8_t kRecordBatch = 3;

// A table with those four fields in front of what is there: all offsets lead forward or stay.
constexpr uint32_t kTableAt = 16;
constexpr uint16_t kVersionAt = 4, kKindAt = 6, kHeaderAt = 8, kBodyLengthAt = 16;
constexpr uint16_t kTableBytes = 24;
constexpr uint32_t kFrontBytes = kTableAt + kTableBytes;

void put(uint64_t value, size_t bytes, std::string* out) {
  for (size_t i = 0; i < bytes; ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}

// The position in `values` of a row; nothing: the row is null. Indices are checked.
template <typename Indices>
arrow::Result<std::vector<int64_t>> positions_of(const arrow::Array& column, int64_t values) {
  const auto& indices = static_cast<const Indices&>(column);
  std::vector<int64_t> positions;
  positions.reserve(static_cast<size_t>(indices.length()));
  for (int64_t i = 0; i < indices.length(); ++i) {
    if (indices.IsNull(i)) {
      positions.push_back(-1);
      continue;
    }
    const auto index = indices.Value(i);
    if (index < 0 || static_cast<uint64_t>(index) >= static_cast<uint64_t>(values)) {
      return arrow::Status::Invalid("row ", i, " has index ", +index, " of a dictionary of ",
                                    values);
    }
    positions.push_back(static_cast<int64_t>(index));
  }
  return positions;
}

arrow::Result<std::vector<int64_t>> positions(const arrow::Array& column, int64_t values) {
  switch (column.type_id()) {
    case arrow::Type::INT8:
      return positions_of<arrow::Int8Array>(column, values);
    case arrow::Type::UINT8:
      return positions_of<arrow::UInt8Array>(column, values);
    case arrow::Type::INT16:
      return positions_of<arrow::Int16Array>(column, values);
    case arrow::Type::UINT16:
      return positions_of<arrow::UInt16Array>(column, values);
    case arrow::Type::INT32:
      return positions_of<arrow::Int32Array>(column, values);
    case arrow::Type::UINT32:
      return positions_of<arrow::UInt32Array>(column, values);
    case arrow::Type::INT64:
      return positions_of<arrow::Int64Array>(column, values);
    case arrow::Type::UINT64:
      return positions_of<arrow::UInt64Array>(column, values);
    default:
      return arrow::Status::Invalid("indices of a dictionary are ", column.type()->ToString());
  }
}

bool is_text_type(const arrow::DataType& type) {
  return arrow::is_string(type.id()) || type.id() == arrow::Type::STRING_VIEW;
}

template <typename ArrayType, typename Builder>
arrow::Result<std::shared_ptr<arrow::Array>> picked(const arrow::Array& values,
                                                    const std::vector<int64_t>& positions,
                                                    Builder* builder) {
  const auto& typed = static_cast<const ArrayType&>(values);
  for (const int64_t at : positions) {
    if (at < 0 || typed.IsNull(at)) {
      ARROW_RETURN_NOT_OK(builder->AppendNull());
    } else {
      ARROW_RETURN_NOT_OK(builder->Append(typed.GetView(at)));
    }
  }
  return builder->Finish();
}

template <typename ArrowType>
arrow::Result<std::shared_ptr<arrow::Array>> picked_numbers(const arrow::Array& values,
                                                            const std::vector<int64_t>& positions,
                                                            arrow::MemoryPool* memory) {
  using Array = typename arrow::TypeTraits<ArrowType>::ArrayType;
  typename arrow::TypeTraits<ArrowType>::BuilderType builder(memory);
  return picked<Array>(values, positions, &builder);
}

template <typename ArrayType>
arrow::Result<std::shared_ptr<arrow::Array>> picked_bytes(const arrow::Array& values,
                                                          const std::vector<int64_t>& positions,
                                                          arrow::MemoryPool* memory) {
  if (is_text_type(*values.type())) {
    arrow::LargeStringBuilder builder(memory);
    return picked<ArrayType>(values, positions, &builder);
  }
  arrow::LargeBinaryBuilder builder(memory);
  return picked<ArrayType>(values, positions, &builder);
}

arrow::Result<std::shared_ptr<arrow::Array>> pick(const arrow::Array& values,
                                                  const std::vector<int64_t>& at,
                                                  arrow::MemoryPool* memory) {
  switch (values.type_id()) {
    case arrow::Type::STRING:
    case arrow::Type::BINARY:
      return picked_bytes<arrow::BinaryArray>(values, at, memory);
    case arrow::Type::LARGE_STRING:
    case arrow::Type::LARGE_BINARY:
      return picked_bytes<arrow::LargeBinaryArray>(values, at, memory);
    case arrow::Type::STRING_VIEW:
    case arrow::Type::BINARY_VIEW:
      return picked_bytes<arrow::BinaryViewArray>(values, at, memory);
    case arrow::Type::INT8:
      return picked_numbers<arrow::Int8Type>(values, at, memory);
    case arrow::Type::UINT8:
      return picked_numbers<arrow::UInt8Type>(values, at, memory);
    case arrow::Type::INT16:
      return picked_numbers<arrow::Int16Type>(values, at, memory);
    case arrow::Type::UINT16:
      return picked_numbers<arrow::UInt16Type>(values, at, memory);
    case arrow::Type::INT32:
      return picked_numbers<arrow::Int32Type>(values, at, memory);
    case arrow::Type::UINT32:
      return picked_numbers<arrow::UInt32Type>(values, at, memory);
    case arrow::Type::INT64:
      return picked_numbers<arrow::Int64Type>(values, at, memory);
    case arrow::Type::UINT64:
      return picked_numbers<arrow::UInt64Type>(values, at, memory);
    default:
      return arrow::Status::Invalid("values of a dictionary are ", values.type()->ToString());
  }
}

}  // namespace

void KnownDictionaries::take(const BatchMessage& message, int64_t id, bool is_delta) {
  std::vector<DictionaryPlace>& places = places_[id];
  if (!is_delta) places.clear();
  places.push_back({message.metadata_offset, message.metadata.size(), message.body_offset,
                    message.body_bytes, message.header});
}

const std::vector<DictionaryPlace>* KnownDictionaries::find(int64_t id) const {
  const auto found = places_.find(id);
  return found == places_.end() ? nullptr : &found->second;
}

void write_dictionary(const std::vector<DictionaryPlace>& places, ByteWriter* out) {
  out->varint(places.size());
  for (const DictionaryPlace& place : places) {
    out->varint(place.metadata_offset);
    out->varint(place.metadata_bytes);
    out->varint(place.body_offset);
    out->varint(place.body_bytes);
  }
}

bool read_dictionary(ByteReader* in, uint64_t shard_bytes, std::vector<DictionaryPlace>* out) {
  out->resize(in->count(4));
  const auto fits = [&](uint64_t offset, uint64_t bytes) {
    return offset <= shard_bytes && bytes <= shard_bytes - offset;
  };
  for (DictionaryPlace& place : *out) {
    place.metadata_offset = in->varint();
    place.metadata_bytes = in->varint();
    place.body_offset = in->varint();
    place.body_bytes = in->varint();
    if (!fits(place.metadata_offset, place.metadata_bytes) ||
        !fits(place.body_offset, place.body_bytes)) {
      return false;
    }
  }
  return !in->failed() && !out->empty();
}

std::optional<std::string> batch_in_dictionary(std::string_view metadata) {
  const auto message = FlatTable::root(metadata);
  const auto dictionary = message ? message->table(kHeader) : std::nullopt;
  const auto batch = dictionary ? dictionary->table(kDictionaryData) : std::nullopt;
  const auto version = message ? message->scalar<int16_t>(kVersion, 0) : std::nullopt;
  const auto length = message ? message->scalar<int64_t>(kBodyLength, 0) : std::nullopt;
  if (!batch || !version || !length) return std::nullopt;
  std::string out;
  out.reserve(kFrontBytes + metadata.size());
  put(kTableAt, 4, &out);
  const uint16_t list_bytes = 12;  // of the list of fields: two sizes and four places
  for (const uint16_t value :
       {list_bytes, kTableBytes, kVersionAt, kKindAt, kHeaderAt, kBodyLengthAt}) {
    put(value, 2, &out);
  }
  put(kTableAt - 4, 4, &out);  // back to that list
  put(static_cast<uint16_t>(*version), 2, &out);
  put(kRecordBatch, 2, &out);
  put(kFrontBytes + batch->offset() - (kTableAt + kHeaderAt), 4, &out);
  put(0, 4, &out);
  put(static_cast<uint64_t>(*length), 8, &out);
  out.append(metadata);
  return out;
}

std::shared_ptr<arrow::DataType> plain_type(const std::shared_ptr<arrow::DataType>& type) {
  switch (type->id()) {
    case arrow::Type::DICTIONARY: {
      const auto& values = static_cast<const arrow::DictionaryType&>(*type).value_type();
      if (is_text_type(*values)) return arrow::large_utf8();
      return arrow::is_base_binary_like(values->id()) ? arrow::large_binary() : plain_type(values);
    }
    case arrow::Type::STRING_VIEW:
      return arrow::large_utf8();
    case arrow::Type::BINARY_VIEW:
      return arrow::large_binary();
    default:
      return type;
  }
}

arrow::Result<std::shared_ptr<arrow::Array>> plain_column(
    const std::shared_ptr<arrow::Array>& column, const std::shared_ptr<arrow::Array>& values,
    arrow::MemoryPool* memory) {
  if (values != nullptr) {
    ARROW_ASSIGN_OR_RAISE(const std::vector<int64_t> at, positions(*column, values->length()));
    return pick(*values, at, memory);
  }
  std::vector<int64_t> at(static_cast<size_t>(column->length()));
  for (size_t i = 0; i < at.size(); ++i) at[i] = static_cast<int64_t>(i);
  return pick(*column, at, memory);
}

}  // namespace overlord::columnar
