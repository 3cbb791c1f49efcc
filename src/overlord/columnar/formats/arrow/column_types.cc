#include "overlord/columnar/formats/arrow/column_types.h"

#include <arrow/type_traits.h>
#include <arrow/util/key_value_metadata.h>

#include "overlord/runtime/quote.h"

namespace overlord::columnar {

using runtime::quote;

bool is_bytes(const arrow::DataType& type) { return arrow::is_base_binary_like(type.id()); }

bool is_large(const arrow::DataType& type) { return arrow::is_large_binary_like(type.id()); }

bool is_list(const arrow::DataType& type) {
  if (type.id() == arrow::Type::FIXED_SIZE_LIST) {
    return static_cast<const arrow::FixedSizeListType&>(type).list_size() > 0;
  }
  return type.id() == arrow::Type::LIST || type.id() == arrow::Type::LARGE_LIST;
}

Status check_metadata_type(const ShardJob& job, const arrow::Field& field) {
  const arrow::DataType& type = *field.type();
  if (arrow::is_integer(type.id()) || type.id() == arrow::Type::BOOL) return {};
  return job.error("column " + quote(field.name()) + " is " + type.ToString() +
                       ", metadata must be integers or booleans",
                   Code::kInvalidArgument);
}

Status check_row_type(const ShardJob& job, const arrow::Field& field) {
  const arrow::DataType& type = *field.type();
  if (field.name() == job.source->text_column) {
    if (is_bytes(type)) return {};
    return job.error("column " + quote(field.name()) + " is " + type.ToString() +
                         ", text must be string or binary",
                     Code::kInvalidArgument);
  }
  const bool mask = field.name() == job.source->mask_column;
  if (is_list(type)) {
    const arrow::DataType& value = *static_cast<const arrow::BaseListType&>(type).value_type();
    if (arrow::is_integer(value.id()) || (mask && value.id() == arrow::Type::BOOL)) return {};
  }
  return job.error("column " + quote(field.name()) + " is " + type.ToString() + ", " +
                       (mask ? "a mask must be a list of booleans or integers"
                             : "tokens must be a list of integers"),
                   Code::kInvalidArgument);
}

std::string describe_column(const arrow::Field& field) {
  std::string type = field.type()->ToString();
  if (is_list(*field.type())) {
    const arrow::Field& item =
        *static_cast<const arrow::BaseListType&>(*field.type()).value_field();
    type = field.type()->name() + "<" + item.type()->ToString() +
           (item.nullable() ? " or null>" : ">");
  }
  return field.name() + ": " + type + (field.nullable() ? " or null" : "");
}

bool has_extension(const arrow::Field& field) {
  if (field.type()->id() == arrow::Type::EXTENSION) return true;
  if (field.metadata() != nullptr && field.metadata()->Contains("ARROW:extension:name"))
    return true;
  for (const auto& child : field.type()->fields()) {
    if (has_extension(*child)) return true;
  }
  return false;
}

}  // namespace overlord::columnar
