#include "overlord/columnar/formats/jsonl/json_schema_text.h"

#include <optional>
#include <utility>

#include "overlord/columnar/formats/jsonl/json_fields.h"
#include "overlord/columnar/schema_text.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {
namespace {

namespace dom = simdjson::dom;
using runtime::quote;

std::string append_json(const dom::element& element, size_t depth, std::string* out);

std::string append_members(const dom::object& object, size_t depth, std::string* out) {
  out->push_back('{');
  bool first = true;
  for (const dom::key_value_pair member : object) {
    if (!std::exchange(first, false)) out->push_back(',');
    append_json_string(member.key, out);
    out->push_back(':');
    std::string fault = append_json(member.value, depth + 1, out);
    if (!fault.empty()) return fault;
  }
  out->push_back('}');
  return {};
}

std::string append_items(const dom::array& array, size_t depth, std::string* out) {
  out->push_back('[');
  bool first = true;
  for (const dom::element item : array) {
    if (!std::exchange(first, false)) out->push_back(',');
    std::string fault = append_json(item, depth + 1, out);
    if (!fault.empty()) return fault;
  }
  out->push_back(']');
  return {};
}

std::string append_json(const dom::element& element, size_t depth, std::string* out) {
  if (depth > kMaxRecordDepth) {
    return "values lie more than " + std::to_string(kMaxRecordDepth) + " deep in each other";
  }
  switch (element.type()) {
    case dom::element_type::OBJECT:
      return append_members(dom::object(element), depth, out);
    case dom::element_type::ARRAY:
      return append_items(dom::array(element), depth, out);
    case dom::element_type::STRING:
      append_json_string(std::string_view(element), out);
      return {};
    case dom::element_type::INT64:
      out->append(std::to_string(int64_t(element)));
      return {};
    case dom::element_type::UINT64:
      out->append(std::to_string(uint64_t(element)));
      return {};
    case dom::element_type::DOUBLE:
      return append_json_number(double(element), out) ? "" : "a number that JSON does not have";
    case dom::element_type::BOOL:
      out->append(bool(element) ? "true" : "false");
      return {};
    case dom::element_type::NULL_VALUE:
      out->append("null");
      return {};
    default:
      return "a number too long for 64 bits";
  }
}

std::string record_text(const model::Source& source, const dom::object& object, std::string* out) {
  const size_t begin = out->size();
  for (size_t i = 0; i < source.schema.columns.size(); ++i) {
    const std::string& name = source.schema.columns[i];
    std::optional<dom::element> found;
    std::string fault = find_field(object, name, &found);
    if (!found) {
      if (i < source.schema.required) return fault;
      continue;
    }
    if (!fault.empty()) return fault;  // it is there twice
    out->push_back(out->size() == begin ? '{' : ',');
    append_json_string(name, out);
    out->push_back(':');
    fault = append_json(*found, 1, out);
    if (!fault.empty()) return "field " + quote(name) + ": " + fault;
  }
  out->push_back('}');
  return fault_of_size(out->size() - begin, source.limits);
}

std::string interleaved_text(const model::Source& source, const dom::object& object,
                             std::string* out) {
  dom::array lists[2];
  for (size_t i = 0; i < 2; ++i) {
    const std::string& name = source.schema.columns[i];
    std::optional<dom::element> found;
    std::string fault = find_field(object, name, &found);
    if (!fault.empty()) return fault;
    if (found->get(lists[i])) return wrong_type(name, found->type(), "an array");
  }
  Interleaver row(source, out);
  auto image = lists[1].begin();
  uint64_t places = 0;
  bool even = true;  // not by size(), which stops counting at 2^24
  for (const dom::element text : lists[0]) {
    even = image != lists[1].end();
    if (!even) break;
    std::string_view words;
    const bool has_text = !text.is_null();
    if (has_text && text.get(words)) {
      return wrong_type(source.schema.columns[0] + "[" + std::to_string(places) + "]", text.type(),
                        "a string or null");
    }
    std::string fault = row.add(has_text ? &words : nullptr, !(*image).is_null());
    if (!fault.empty()) return fault;
    ++image;
    ++places;
  }
  if (!even || image != lists[1].end()) {
    return uneven_lists(source, lists[0].size(), lists[1].size());
  }
  return row.finish(source.limits);
}

}  // namespace

std::string append_schema_text(const model::Source& source, const dom::object& object,
                               std::string* out) {
  return source.schema.text == model::RowText::kRecord ? record_text(source, object, out)
                                                       : interleaved_text(source, object, out);
}

}  // namespace overlord::columnar
