#include "overlord/columnar/formats/tar/tar_rows.h"

#include <optional>

#include "overlord/columnar/formats/jsonl/json_fields.h"
#include "overlord/columnar/formats/jsonl/json_schema_text.h"
#include "overlord/columnar/text_rules.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {
namespace {

namespace dom = simdjson::dom;
using runtime::quote;

constexpr size_t kMaxDepth = 1024;

}  // namespace

struct SampleRows::Parser {
  dom::parser parser;
  std::string padded;

  // The object that `member` holds, which lies in `place`; what is wrong with it, or empty.
  std::string parse(std::string_view member, const std::string& place, dom::object* object) {
    padded.assign(member);
    padded.append(simdjson::SIMDJSON_PADDING, ' ');
    dom::element root;
    const auto error =
        parser.parse(reinterpret_cast<const uint8_t*>(padded.data()), member.size(), false)
            .get(root);
    if (error) return place + ": invalid JSON: " + simdjson::error_message(error);
    if (!root.get(*object)) return {};
    return place + " is " + json_type_name(root.type()) + ", not an object";
  }
};

SampleRows::SampleRows(const model::Source& source, RowNamer name, std::string place)
    : source_(source),
      name_(std::move(name)),
      text_(text_member(source)),
      place_(std::move(place)),
      parser_(std::make_unique<Parser>()) {
  out_.is_text = true;
  out_.columns.resize(source.metadata_columns.size());
}

SampleRows::~SampleRows() = default;

Status SampleRows::prepare(size_t longest_member) {
  if (!parser_->parser.allocate(longest_member, kMaxDepth)) return {};
  return {Code::kResource,
          "no memory to parse a member of " + std::to_string(longest_member) + " bytes"};
}

void SampleRows::add(std::string_view text, std::string_view metadata, bool has_metadata) {
  const auto row = static_cast<uint32_t>(out_.text.rows.ends.size());
  values_.assign(out_.columns.size(), 0);
  std::string fault = has_metadata ? take_metadata(metadata) : std::string();
  if (fault.empty()) fault = take_text(text);
  if (!fault.empty()) {
    values_.assign(out_.columns.size(), 0);
    out_.text.bad.push_back({row, name_(row, fault)});
  }
  out_.text.rows.ends.push_back(out_.text.rows.bytes.size());
  for (size_t i = 0; i < values_.size(); ++i) out_.columns[i].push_back(values_[i]);
}

void SampleRows::add_bad(std::string reason) {
  const auto row = static_cast<uint32_t>(out_.text.rows.ends.size());
  out_.text.bad.push_back({row, std::move(reason)});
  out_.text.rows.ends.push_back(out_.text.rows.bytes.size());
  for (std::vector<uint32_t>& column : out_.columns) column.push_back(0);
}

std::string SampleRows::take_text(std::string_view member) {
  if (source_.schema.declared()) return take_schema_text(member);
  if (text_.field.empty()) {
    if (!is_valid_utf8(member)) return place_ + " is not valid UTF-8";
    if (is_blank(member)) return empty_row("empty text in " + place_);
    out_.text.rows.bytes.append(member);
    return {};
  }
  dom::object object;
  std::string fault = parser_->parse(member, place_, &object);
  if (!fault.empty()) return fault;
  std::optional<dom::element> found;
  fault = find_field(object, text_.field, &found);
  if (!fault.empty()) return fault + " in " + place_;
  std::string_view text;
  if (found->get(text)) return wrong_type(text_.field, found->type(), "a string");
  if (is_blank(text)) return empty_row("empty text in field " + quote(text_.field));
  out_.text.rows.bytes.append(text);
  return {};
}

std::string SampleRows::take_schema_text(std::string_view member) {
  dom::object object;
  std::string fault = parser_->parse(member, place_, &object);
  if (!fault.empty()) return fault;
  std::string& bytes = out_.text.rows.bytes;
  const size_t before = bytes.size();
  fault = append_schema_text(source_, object, &bytes);
  if (fault.empty()) return {};
  bytes.resize(before);
  return place_ + ": " + fault;
}

// A sample that lacks a field has 0 there.
std::string SampleRows::take_metadata(std::string_view member) {
  dom::object object;
  std::string fault = parser_->parse(member, "member .json", &object);
  if (!fault.empty()) return fault;
  if (out_.fields.empty()) out_.fields = field_names(object);
  for (size_t i = 0; i < values_.size(); ++i) {
    const std::string& name = source_.metadata_columns[i];
    std::optional<dom::element> found;
    fault = find_field(object, name, &found);
    if (!found) continue;
    out_.columns_seen |= uint64_t{1} << i;
    if (fault.empty()) fault = take_value(name, *found, &values_[i]);
    if (!fault.empty()) return fault;
  }
  return {};
}

}  // namespace overlord::columnar
