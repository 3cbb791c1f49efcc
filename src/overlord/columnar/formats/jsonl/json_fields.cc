#include "overlord/columnar/formats/jsonl/json_fields.h"

#include <limits>

#include "overlord/columnar/metadata_value.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {
namespace {

constexpr size_t kFieldsShown = 20;

}  // namespace

namespace dom = simdjson::dom;
using runtime::quote;

const char* json_type_name(dom::element_type type) {
  switch (type) {
    case dom::element_type::ARRAY:
      return "an array";
    case dom::element_type::OBJECT:
      return "an object";
    case dom::element_type::INT64:
    case dom::element_type::UINT64:
    case dom::element_type::DOUBLE:
      return "a number";
    case dom::element_type::STRING:
      return "a string";
    case dom::element_type::BOOL:
      return "a boolean";
    case dom::element_type::NULL_VALUE:
      return "null";
  }
  return "of unknown type";
}

std::string wrong_type(const std::string& field, dom::element_type type, const char* wanted) {
  return "field " + quote(field) + " is " + json_type_name(type) + ", not " + wanted;
}

std::string find_field(const dom::object& object, const std::string& name,
                       std::optional<dom::element>* found) {
  for (const dom::key_value_pair field : object) {
    if (field.key != name) continue;
    if (found->has_value()) return "field " + quote(name) + " appears twice";
    *found = field.value;
  }
  return found->has_value() ? std::string() : "field " + quote(name) + " is missing";
}

std::string take_value(const std::string& name, const dom::element& element, uint32_t* value) {
  bool flag = false;
  if (!element.get(flag)) {
    *value = flag ? 1 : 0;
    return {};
  }
  int64_t number = 0;
  if (!element.get(number)) {
    if (number < 0 || number > std::numeric_limits<uint32_t>::max()) {
      return metadata_fault(name, std::to_string(number));
    }
    *value = static_cast<uint32_t>(number);
    return {};
  }
  if (element.is_null()) return {};
  if (element.type() == dom::element_type::UINT64) return metadata_fault(name, "2^63 or more");
  return wrong_type(name, element.type(), "an integer or boolean");
}

std::string field_names(const dom::object& object) {
  std::string names;
  size_t count = 0;
  for (const dom::key_value_pair field : object) {
    if (count++ == kFieldsShown) return names + ", ...";
    names += (names.empty() ? "" : ", ") + quote(field.key, 60);
  }
  return names;
}

}  // namespace overlord::columnar
