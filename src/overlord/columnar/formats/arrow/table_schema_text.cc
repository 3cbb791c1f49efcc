#include "overlord/columnar/formats/arrow/table_schema_text.h"

#include <arrow/array.h>
#include <arrow/type_traits.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "overlord/columnar/schema_text.h"
#include "overlord/columnar/text_rules.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {
namespace {

using runtime::quote;

bool is_any_list(arrow::Type::type type) {
  return type == arrow::Type::LIST || type == arrow::Type::LARGE_LIST;
}

// The part of a type that no JSON has, or empty.
std::string foreign_part(const arrow::DataType& type, size_t depth) {
  switch (type.id()) {
    case arrow::Type::STRING:
    case arrow::Type::LARGE_STRING:
    case arrow::Type::BOOL:
    case arrow::Type::FLOAT:
    case arrow::Type::DOUBLE:
    case arrow::Type::NA:
      return {};
    case arrow::Type::LIST:
    case arrow::Type::LARGE_LIST:
    case arrow::Type::STRUCT:
      if (depth > kMaxRecordDepth) return "more than " + std::to_string(kMaxRecordDepth) + " lists";
      for (const auto& child : type.fields()) {
        std::string foreign = foreign_part(*child->type(), depth + 1);
        if (!foreign.empty()) return foreign;
      }
      return {};
    default:
      return arrow::is_integer(type.id()) ? std::string() : type.ToString();
  }
}

Status check_interleaved(const ShardJob& job, const arrow::Field& field) {
  const bool texts = field.name() == job.source->schema.columns[0];
  const arrow::DataType& type = *field.type();
  if (is_any_list(type.id())) {
    const arrow::DataType& item = *type.field(0)->type();
    if (!texts || arrow::is_string(item.id())) return {};
  }
  return job.error("column " + quote(field.name()) + " is " + type.ToString() +
                       (texts ? ", texts must be a list of strings" : ", images must be a list"),
                   Code::kInvalidArgument);
}

std::string_view bytes_at(const arrow::Array& array, int64_t i) {
  if (array.type_id() == arrow::Type::BINARY) {
    return static_cast<const arrow::BinaryArray&>(array).GetView(i);
  }
  return static_cast<const arrow::LargeBinaryArray&>(array).GetView(i);
}

// Values of one column as JSON. One per column and row group; arrays are validated.
class JsonColumn {
 public:
  // Appends value i; what is wrong, or empty.
  static std::string append(const arrow::Array& array, int64_t i, std::string* out) {
    if (array.IsNull(i)) {
      out->append("null");
      return {};
    }
    switch (array.type_id()) {
      case arrow::Type::BINARY:
      case arrow::Type::LARGE_BINARY:
        return append_text(bytes_at(array, i), out);
      case arrow::Type::BOOL:
        out->append(static_cast<const arrow::BooleanArray&>(array).Value(i) ? "true" : "false");
        return {};
      case arrow::Type::FLOAT:
        return append_number(static_cast<const arrow::FloatArray&>(array).Value(i), out);
      case arrow::Type::DOUBLE:
        return append_number(static_cast<const arrow::DoubleArray&>(array).Value(i), out);
      case arrow::Type::STRUCT:
        return append_members(static_cast<const arrow::StructArray&>(array), i, out);
      case arrow::Type::LIST: {
        const auto& list = static_cast<const arrow::ListArray&>(array);
        return append_items(*list.values(), list.value_offset(i), list.value_length(i), out);
      }
      case arrow::Type::LARGE_LIST: {
        const auto& list = static_cast<const arrow::LargeListArray&>(array);
        return append_items(*list.values(), list.value_offset(i), list.value_length(i), out);
      }
      default:
        return append_integer(array, i, out);
    }
  }

 private:
  static std::string append_text(std::string_view text, std::string* out) {
    if (!is_valid_utf8(text)) return "text that is not valid UTF-8";
    append_json_string(text, out);
    return {};
  }

  static std::string append_number(double value, std::string* out) {
    return append_json_number(value, out) ? "" : "a number that JSON does not have";
  }

  // Fields without a value are left out, as if the row had never had them.
  static std::string append_members(const arrow::StructArray& array, int64_t i, std::string* out) {
    out->push_back('{');
    bool first = true;
    for (int f = 0; f < array.num_fields(); ++f) {
      const arrow::Array& field = *array.field(f);
      if (field.IsNull(i)) continue;
      if (!std::exchange(first, false)) out->push_back(',');
      append_json_string(array.type()->field(f)->name(), out);
      out->push_back(':');
      std::string fault = append(field, i, out);
      if (!fault.empty()) return fault;
    }
    out->push_back('}');
    return {};
  }

  static std::string append_items(const arrow::Array& values, int64_t begin, int64_t count,
                                  std::string* out) {
    out->push_back('[');
    for (int64_t i = begin; i < begin + count; ++i) {
      if (i > begin) out->push_back(',');
      std::string fault = append(values, i, out);
      if (!fault.empty()) return fault;
    }
    out->push_back(']');
    return {};
  }

  template <typename T>
  static std::string append_integer_of(const arrow::Array& array, int64_t i, std::string* out) {
    out->append(std::to_string(static_cast<const T&>(array).Value(i)));
    return {};
  }

  static std::string append_integer(const arrow::Array& array, int64_t i, std::string* out) {
    switch (array.type_id()) {
      case arrow::Type::INT8:
        return append_integer_of<arrow::Int8Array>(array, i, out);
      case arrow::Type::UINT8:
        return append_integer_of<arrow::UInt8Array>(array, i, out);
      case arrow::Type::INT16:
        return append_integer_of<arrow::Int16Array>(array, i, out);
      case arrow::Type::UINT16:
        return append_integer_of<arrow::UInt16Array>(array, i, out);
      case arrow::Type::INT32:
        return append_integer_of<arrow::Int32Array>(array, i, out);
      case arrow::Type::UINT32:
        return append_integer_of<arrow::UInt32Array>(array, i, out);
      case arrow::Type::INT64:
        return append_integer_of<arrow::Int64Array>(array, i, out);
      case arrow::Type::UINT64:
        return append_integer_of<arrow::UInt64Array>(array, i, out);
      default:
        return "a value of type " + array.type()->ToString();
    }
  }
};

// A cell of a column that may have several chunks, for rows in ascending order.
class Cells {
 public:
  explicit Cells(const arrow::ChunkedArray* column) : column_(column) {}
  bool there() const { return column_ != nullptr; }

  // The array that holds the row, and its place there.
  std::pair<const arrow::Array*, int64_t> at(int64_t row) {
    while (row - first_ >= column_->chunk(chunk_)->length()) {
      first_ += column_->chunk(chunk_++)->length();
    }
    return {column_->chunk(chunk_).get(), row - first_};
  }

 private:
  const arrow::ChunkedArray* column_;
  int chunk_ = 0;
  int64_t first_ = 0;
};

std::string record_text(const model::Source& source, std::vector<Cells>* cells, int64_t row,
                        std::string* out) {
  const size_t begin = out->size();
  for (size_t i = 0; i < cells->size(); ++i) {
    if (!(*cells)[i].there()) continue;
    const std::string& name = source.schema.columns[i];
    const auto [array, at] = (*cells)[i].at(row);
    if (array->IsNull(at)) {
      if (i < source.schema.required) return "column " + quote(name) + " is null";
      continue;
    }
    out->push_back(out->size() == begin ? '{' : ',');
    append_json_string(name, out);
    out->push_back(':');
    const std::string fault = JsonColumn::append(*array, at, out);
    if (!fault.empty()) return "column " + quote(name) + " has " + fault;
  }
  out->push_back('}');
  return fault_of_size(out->size() - begin, source.limits);
}

struct ListCell {
  const arrow::Array* values = nullptr;
  int64_t begin = 0;
  int64_t count = 0;
};

ListCell list_cell(const arrow::Array& array, int64_t at) {
  if (array.type_id() == arrow::Type::LIST) {
    const auto& list = static_cast<const arrow::ListArray&>(array);
    return {list.values().get(), list.value_offset(at), list.value_length(at)};
  }
  const auto& list = static_cast<const arrow::LargeListArray&>(array);
  return {list.values().get(), list.value_offset(at), list.value_length(at)};
}

std::string interleaved_text(const model::Source& source, std::vector<Cells>* cells, int64_t row,
                             std::string* out) {
  ListCell lists[2];
  for (size_t i = 0; i < 2; ++i) {
    const auto [array, at] = (*cells)[i].at(row);
    if (array->IsNull(at)) return "column " + quote(source.schema.columns[i]) + " is null";
    lists[i] = list_cell(*array, at);
  }
  const auto& [texts, images] = lists;
  if (texts.count != images.count) {
    return uneven_lists(source, static_cast<uint64_t>(texts.count),
                        static_cast<uint64_t>(images.count));
  }
  Interleaver joined(source, out);
  const arrow::Array& words = *texts.values;
  for (int64_t i = 0; i < texts.count; ++i) {
    const bool has_text = !words.IsNull(texts.begin + i);
    const std::string_view text = has_text ? bytes_at(words, texts.begin + i) : std::string_view();
    std::string fault =
        joined.add(has_text ? &text : nullptr, !images.values->IsNull(images.begin + i));
    if (!fault.empty()) return fault;
  }
  return joined.finish(source.limits);
}

// Whether a column of an interleaved row has the type that was checked when it was indexed.
bool is_interleaved(const arrow::ChunkedArray& column, bool texts) {
  if (!is_any_list(column.type()->id())) return false;
  return !texts || arrow::is_binary_like(column.type()->field(0)->type()->id()) ||
         arrow::is_large_binary_like(column.type()->field(0)->type()->id());
}

}  // namespace

Status check_schema_type(const ShardJob& job, const arrow::Field& field) {
  if (job.source->schema.text == model::RowText::kInterleaved) return check_interleaved(job, field);
  const std::string foreign = foreign_part(*field.type(), 1);
  if (foreign.empty()) return {};
  return job.error("column " + quote(field.name()) + " has " + foreign +
                       " in it; the columns of a conversation are made of text, numbers, lists and "
                       "structs. Bytes of media belong into a column of their own",
                   Code::kInvalidArgument);
}

std::shared_ptr<arrow::DataType> without_strings(const std::shared_ptr<arrow::DataType>& type) {
  const auto item = [&] {
    return type->field(0)->WithType(without_strings(type->field(0)->type()));
  };
  switch (type->id()) {
    case arrow::Type::STRING:
      return arrow::binary();
    case arrow::Type::LARGE_STRING:
      return arrow::large_binary();
    case arrow::Type::STRING_VIEW:
      return arrow::binary_view();
    case arrow::Type::LIST:
      return arrow::list(item());
    case arrow::Type::LARGE_LIST:
      return arrow::large_list(item());
    case arrow::Type::STRUCT: {
      arrow::FieldVector fields;
      for (const auto& field : type->fields()) {
        fields.push_back(field->WithType(without_strings(field->type())));
      }
      return arrow::struct_(std::move(fields));
    }
    default:
      return type;
  }
}

Result<TextBlock> schema_rows(const arrow::Table& table, const model::Source& source,
                              const RowNamer& name) {
  const bool record = source.schema.text == model::RowText::kRecord;
  std::vector<std::shared_ptr<arrow::ChunkedArray>> columns;
  std::vector<Cells> cells;
  for (size_t i = 0; i < source.schema.columns.size(); ++i) {
    columns.push_back(table.GetColumnByName(source.schema.columns[i]));
    const bool there = columns.back() != nullptr;
    if ((!there && i < source.schema.expected) ||
        (!record && !is_interleaved(*columns.back(), i == 0))) {
      return bad_data("its columns are not what was indexed; run `overlord index`");
    }
    cells.emplace_back(columns.back().get());
  }
  TextBlock out;
  out.rows.ends.reserve(static_cast<size_t>(table.num_rows()));
  for (int64_t row = 0; row < table.num_rows(); ++row) {
    const size_t before = out.rows.bytes.size();
    const std::string fault = record ? record_text(source, &cells, row, &out.rows.bytes)
                                     : interleaved_text(source, &cells, row, &out.rows.bytes);
    if (!fault.empty()) {
      const auto index = static_cast<uint32_t>(row);
      out.rows.bytes.resize(before);
      out.bad.push_back({index, name(index, fault)});
    }
    out.rows.ends.push_back(out.rows.bytes.size());
  }
  return out;
}

}  // namespace overlord::columnar
