#include "overlord/columnar/formats/jsonl/json_media.h"

#include <optional>
#include <string>
#include <string_view>

#include "overlord/columnar/formats/jsonl/json_fields.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {
namespace {

namespace dom = simdjson::dom;

// What is wrong, or empty.
std::string take_paths(const std::string& name, const dom::element& value,
                       std::vector<std::string>* paths) {
  if (value.is_null()) return {};
  std::string_view path;
  if (!value.get(path)) {
    paths->emplace_back(path);
    return {};
  }
  dom::array list;
  if (value.get(list)) return wrong_type(name, value.type(), "a path or a list of paths");
  for (const dom::element item : list) {
    if (item.is_null()) continue;
    if (paths->size() > model::kMaxRowBlobs) break;  // too many already
    if (item.get(path)) return wrong_type(name + "[]", item.type(), "a path");
    paths->emplace_back(path);
  }
  return {};
}

// The first of a field's names that the object has a value for.
std::string take_field(const model::MediaField& field, const dom::object& object,
                       std::vector<std::string>* paths) {
  for (const std::string& name : field.from) {
    std::optional<dom::element> found;
    const std::string fault = find_field(object, name, &found);
    if (!found || found->is_null()) continue;
    return fault.empty() ? take_paths(name, *found, paths) : fault;
  }
  return {};
}

// Seconds in a field that may be absent.
std::string take_seconds(const std::string& name, const dom::object& object,
                         std::optional<double>* seconds) {
  if (name.empty()) return {};
  std::optional<dom::element> found;
  const std::string fault = find_field(object, name, &found);
  if (!found || found->is_null()) return {};
  double value = 0;
  if (!fault.empty()) return fault;
  if (found->get(value)) return wrong_type(name, found->type(), "a number of seconds");
  *seconds = value;
  return {};
}

std::string take_part_of(const model::MediaField& field, const dom::object& object,
                         std::vector<BlobPart>* parts) {
  std::optional<double> start, end;
  std::string fault = take_seconds(field.start, object, &start);
  if (fault.empty()) fault = take_seconds(field.end, object, &end);
  if (!fault.empty()) return "media " + runtime::quote(field.name) + ": " + fault;
  return take_part(field, start, end, &parts->emplace_back());
}

}  // namespace

NamedMedia json_media(const std::vector<model::MediaField>& fields, const dom::object& object) {
  NamedMedia media;
  for (const model::MediaField& field : fields) {
    std::string fault = take_field(field, object, &media.paths.emplace_back());
    if (!fault.empty()) fault = "media " + runtime::quote(field.name) + ": " + fault;
    if (fault.empty()) fault = take_part_of(field, object, &media.parts);
    if (!fault.empty()) return {{}, {}, fault};
  }
  return media;
}

}  // namespace overlord::columnar
