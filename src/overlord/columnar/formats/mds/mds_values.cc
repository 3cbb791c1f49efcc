#include "overlord/columnar/formats/mds/mds_values.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "overlord/columnar/formats/tar/tar_reader.h"
#include "overlord/columnar/metadata_value.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {
namespace {

using model::Element;
using runtime::quote;

constexpr std::string_view kArray = "ndarray";
constexpr uint64_t kMostDimensions = 63;

// "ndarray:int32:2048" has all three parts.
struct ArrayType {
  bool is_array = false;
  std::optional<Element> element;
  bool known = true;       // its numbers are of a type that NumPy's have
  std::string_view shape;  // as it stands; empty: every value says it
};

ArrayType array_type(std::string_view encoding) {
  ArrayType type;
  const size_t colon = std::min(encoding.find(':'), encoding.size());
  type.is_array = encoding.substr(0, colon) == kArray;
  if (!type.is_array || colon == encoding.size()) return type;
  const std::string_view rest = encoding.substr(colon + 1);
  const size_t next = std::min(rest.find(':'), rest.size());
  type.element = model::element_named(rest.substr(0, next));
  type.known = type.element.has_value();
  if (next < rest.size()) type.shape = rest.substr(next + 1);
  return type;
}

bool is_integer(Element element) { return static_cast<size_t>(element) < model::kIntegerElements; }

// Encodings of one whole number; "int" is int64.
std::optional<Element> integer_type(std::string_view encoding) {
  if (encoding == "int") return Element::kI64;
  const auto element = model::element_named(encoding);
  return element && is_integer(*element) ? element : std::nullopt;
}

// The first byte of an array that says its own type.
std::optional<Element> element_of_byte(uint8_t code) {
  switch (code) {
    case 8:
      return Element::kU8;
    case 9:
      return Element::kI8;
    case 16:
      return Element::kU16;
    case 17:
      return Element::kI16;
    case 32:
      return Element::kU32;
    case 33:
      return Element::kI32;
    case 64:
      return Element::kU64;
    case 65:
      return Element::kI64;
    default:
      return std::nullopt;
  }
}

uint64_t little_endian(std::string_view bytes) {
  uint64_t value = 0;
  std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof value));
  return value;
}

std::string described(const MdsColumn& column) { return "column " + quote(column.name); }

// One dimension, whose size is what is left.
std::string take_shape(const MdsColumn& column, uint64_t width, std::string_view* value) {
  const auto cut_short = [&] { return described(column) + " is an array that is cut short"; };
  if (value->empty()) return cut_short();
  const auto byte = static_cast<uint8_t>(value->front());
  const uint64_t dimensions = byte >> 2;
  const uint64_t bytes_each = uint64_t{1} << (byte & 3);
  value->remove_prefix(1);
  if (dimensions > kMostDimensions || dimensions * bytes_each > value->size()) return cut_short();
  if (dimensions != 1) {
    return described(column) + " is an array of " + std::to_string(dimensions) +
           " dimensions, and a row has one";
  }
  const uint64_t count = little_endian(value->substr(0, bytes_each));
  value->remove_prefix(bytes_each);
  if (value->size() % width == 0 && value->size() / width == count) return {};
  return described(column) + " says it has " + std::to_string(count) + " numbers, and has " +
         std::to_string(value->size()) + " bytes of them";
}

Status refuse(const ShardJob& job, const MdsColumn& column, const std::string& what) {
  return job.error("column " + quote(column.name) + " is " + quote(column.encoding) + ", " + what,
                   Code::kInvalidArgument);
}

Status check_text(const ShardJob& job, const MdsColumn& column) {
  const bool field = !text_member(*job.source).field.empty();
  if (column.encoding == "str" || column.encoding == "bytes") return {};
  if (column.encoding == "json" && field) return {};
  return refuse(job, column,
                column.encoding == "json"
                    ? "and the text is a field of it: write `text: " + column.name + ":FIELD`"
                    : "and text is str, bytes or a field of json (COLUMN:FIELD)");
}

Status check_numbers(const ShardJob& job, const MdsColumn& column, bool mask) {
  const std::optional<Element> declared = mask ? std::nullopt : job.source->raw.element;
  const ArrayType type = array_type(column.encoding);
  if (type.is_array) {
    if (!type.known || (type.element && !is_integer(*type.element))) {
      return refuse(job, column, "and tokens and masks are integers: " + model::integer_names());
    }
    if (type.shape.find(',') != std::string_view::npos) {
      return refuse(job, column, "and a row of tokens has one dimension");
    }
    if (declared) return refuse(job, column, "which says what a token is; remove `dtype`");
    return {};
  }
  if (column.encoding == "bytes" && mask) return {};
  if (column.encoding == "bytes") {
    if (declared) return {};
    return refuse(job, column,
                  "which does not say what a token in it is; write `dtype:` with one of " +
                      model::integer_names());
  }
  return refuse(job, column, "and tokens and masks are arrays of integers (ndarray) or bytes");
}

// Whole numbers have the size of their type, whatever the shard says.
bool is_number(const MdsColumn& column) {
  const std::optional<Element> type = integer_type(column.encoding);
  return type && column.size_bytes == model::element_bytes(*type);
}

Status check_schema_column(const ShardJob& job, const MdsColumn& column) {
  if (column.encoding == "str" || column.encoding == "json" || is_number(column)) return {};
  return refuse(job, column, "and rows with a schema are made of json, str and integers");
}

Status check_media_column(const ShardJob& job, const MdsColumn& column, bool many) {
  const bool blob = column.encoding == "jpeg" || column.encoding == "png" ||
                    column.encoding == "bytes" || is_mds_list(column);
  if (!blob) {
    return refuse(job, column,
                  "and media are jpeg, png or bytes, or several as list[jpeg], list[png] or "
                  "jpeg_array");
  }
  if (is_mds_list(column) == many) return {};
  return refuse(job, column,
                many ? "and media with `many: true` are list[jpeg], list[png] or jpeg_array"
                     : "a list; write `many: true`");
}

}  // namespace

Status check_mds_columns(const ShardJob& job, const MdsColumns& columns) {
  const model::Source& source = *job.source;
  for (size_t i = 0; i < columns.rows.size(); ++i) {
    const MdsColumn& column = columns.all[columns.rows[i]];
    if (source.schema.declared()) {
      OVERLORD_RETURN_IF_ERROR(check_schema_column(job, column));
    } else if (!source.text_column.empty()) {
      OVERLORD_RETURN_IF_ERROR(check_text(job, column));
    } else {
      OVERLORD_RETURN_IF_ERROR(check_numbers(job, column, i > 0));
    }
  }
  for (const size_t i : columns.metadata) {
    if (is_number(columns.all[i])) continue;
    return refuse(job, columns.all[i], "and metadata are integers (int, int8 to uint64)");
  }
  for (size_t field = 0; field < columns.media.size(); ++field) {
    OVERLORD_RETURN_IF_ERROR(
        check_media_column(job, columns.all[columns.media[field]], source.media[field].many));
  }
  return {};
}

std::optional<Element> mds_element(const MdsColumn& column, std::optional<Element> declared) {
  const ArrayType type = array_type(column.encoding);
  if (type.is_array) return type.element;
  return declared ? declared : Element::kU8;
}

std::string take_mds_numbers(const MdsColumn& column, std::optional<Element> declared,
                             std::string_view value, MdsNumbers* out) {
  const ArrayType type = array_type(column.encoding);
  std::optional<Element> element = mds_element(column, declared);
  if (!element) {
    if (value.empty()) return described(column) + " is an array that is cut short";
    const auto code = static_cast<uint8_t>(value.front());
    element = element_of_byte(code);
    if (!element) {
      return described(column) + " is an array of type " + std::to_string(code) +
             ", and tokens are integers";
    }
    value.remove_prefix(1);
  }
  const uint64_t width = model::element_bytes(*element);
  if (type.is_array && type.shape.empty()) {
    std::string fault = take_shape(column, width, &value);
    if (!fault.empty()) return fault;
  }
  if (value.size() % width != 0) {
    return described(column) + " has " + std::to_string(value.size()) +
           " bytes, which is no whole number of " + std::string(model::element_name(*element));
  }
  *out = {*element, value};
  return {};
}

std::string mds_integer(const MdsColumn& column, std::string_view value) {
  const auto as = [&]<typename T>(T number) {
    if (value.size() == sizeof number) std::memcpy(&number, value.data(), sizeof number);
    return std::to_string(number);
  };
  switch (integer_type(column.encoding).value_or(Element::kI64)) {
    case Element::kU8:
      return as(uint8_t{});
    case Element::kI8:
      return as(int8_t{});
    case Element::kU16:
      return as(uint16_t{});
    case Element::kI16:
      return as(int16_t{});
    case Element::kU32:
      return as(uint32_t{});
    case Element::kI32:
      return as(int32_t{});
    case Element::kU64:
      return as(uint64_t{});
    default:
      return as(int64_t{});
  }
}

std::string take_mds_metadata(const MdsColumn& column, std::string_view value, uint32_t* out) {
  const std::string text = mds_integer(column, value);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  if (error == std::errc() && end == text.data() + text.size()) return {};
  *out = 0;
  return metadata_fault(column.name, text);
}

bool is_mds_list(const MdsColumn& column) {
  for (const std::string_view name : {"list[jpeg]", "list[png]", "jpeg_array", "jpegarray"}) {
    if (column.encoding == name) return true;
  }
  return false;
}

uint64_t mds_list_head_bytes(const MdsColumn& column) {
  // A list has a place for what may come before its number.
  return column.encoding.starts_with("list[") ? 2 * sizeof(uint32_t) : sizeof(uint32_t);
}

uint64_t mds_list_count(const MdsColumn& column, std::string_view head) {
  return little_endian(head.substr(mds_list_head_bytes(column) - sizeof(uint32_t), 4));
}

std::string mds_list_spans(const MdsColumn& column, std::string_view sizes, uint64_t value_bytes,
                           std::vector<MdsSpan>* out) {
  uint64_t at = mds_list_head_bytes(column) + sizes.size();
  for (size_t i = 0; i + sizeof(uint32_t) <= sizes.size(); i += sizeof(uint32_t)) {
    const uint64_t size = little_endian(sizes.substr(i, sizeof(uint32_t)));
    out->push_back({at, size});
    at += size;
  }
  if (at == value_bytes) return {};
  return described(column) + " is a list whose items take " + std::to_string(at) + " of its " +
         std::to_string(value_bytes) + " bytes";
}

}  // namespace overlord::columnar
