#include "overlord/columnar/formats/jsonl/jsonl_rows.h"

#include <cstring>
#include <limits>
#include <optional>

#include "overlord/columnar/formats/jsonl/json_fields.h"
#include "overlord/columnar/formats/jsonl/json_media.h"
#include "overlord/columnar/formats/jsonl/json_schema_text.h"
#include "overlord/columnar/text_rules.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {
namespace {

namespace dom = simdjson::dom;
using runtime::quote;

static_assert(kLinePadding >= simdjson::SIMDJSON_PADDING);

constexpr size_t kMaxDepth = 1024;

std::string at_index(const std::string& field, size_t index) {
  return quote(field) + "[" + std::to_string(index) + "]";
}

}  // namespace

struct JsonRowParser::Parser {
  dom::parser parser;
  std::string padded_line;
};

JsonRowParser::JsonRowParser(const model::Source& source, bool named_media, RowNamer name)
    : source_(source),
      named_media_(named_media),
      name_(std::move(name)),
      parser_(std::make_unique<Parser>()) {
  out_.is_text = !source.text_column.empty();
  out_.columns.resize(source.metadata_columns.size());
}

JsonRowParser::~JsonRowParser() = default;

Status JsonRowParser::prepare(size_t longest_line) {
  if (!parser_->parser.allocate(longest_line, kMaxDepth)) return {};
  return {Code::kResource,
          "no memory to parse a line of " + std::to_string(longest_line) + " bytes"};
}

void JsonRowParser::use_buffers(const runtime::Buffer& tokens, const runtime::Buffer& mask) {
  token_buffer_ = tokens;
  mask_buffer_ = mask;
}

void JsonRowParser::add(std::string_view line, bool padded) {
  const uint64_t tokens_before = token_count_;
  metadata_.assign(out_.columns.size(), 0);
  media_ = {};
  const std::string fault = parse(line, padded);
  if (!fault.empty()) {
    metadata_.assign(out_.columns.size(), 0);
    token_count_ = tokens_before;
    refuse(fault);
  } else if (!out_.is_text) {
    out_.tokens.begins.push_back(tokens_before);
    out_.tokens.counts.push_back(static_cast<uint32_t>(token_count_ - tokens_before));
  }
  if (out_.is_text) out_.text.rows.ends.push_back(out_.text.rows.bytes.size());
  for (size_t i = 0; i < metadata_.size(); ++i) out_.columns[i].push_back(metadata_[i]);
  // A row that cannot be read has none, and is found bad whenever it is read.
  if (named_media_) out_.named.push_back(fault.empty() ? std::move(media_) : NamedMedia());
  ++rows_;
}

void JsonRowParser::refuse(std::string_view what) {
  auto& bad = out_.is_text ? out_.text.bad : out_.tokens.bad;
  bad.push_back({rows_, name_(rows_, what)});
  if (out_.is_text) return;
  out_.tokens.begins.push_back(0);
  out_.tokens.counts.push_back(model::kBadRow);
}

std::string JsonRowParser::parse(std::string_view line, bool padded) {
  if (!padded) {
    parser_->padded_line.assign(line);
    parser_->padded_line.append(kLinePadding, ' ');
    line = std::string_view(parser_->padded_line.data(), line.size());
  }
  dom::element root;
  const auto error =
      parser_->parser.parse(reinterpret_cast<const uint8_t*>(line.data()), line.size(), false)
          .get(root);
  if (error) return std::string("invalid JSON: ") + simdjson::error_message(error);
  dom::object object;
  if (root.get(object))
    return std::string("line is ") + json_type_name(root.type()) + ", not an object";
  if (named_media_) media_ = take_media(&object);
  if (source_.schema.declared()) return take_schema_text(&object);
  std::optional<dom::element> wanted, mask;
  const std::string& name = out_.is_text ? source_.text_column : source_.token_column;
  std::string fault = find_field(object, name, &wanted);
  if (!fault.empty()) return fault;
  fault = take_metadata(&object);
  if (!fault.empty()) return fault;
  if (out_.is_text) return take_text(&*wanted);
  if (!source_.mask_column.empty()) {
    fault = find_field(object, source_.mask_column, &mask);
    if (!fault.empty()) return fault;
  }
  return take_tokens(&*wanted, mask ? &*mask : nullptr);
}

// A row that lacks a field has 0 there.
std::string JsonRowParser::take_metadata(const void* opaque) {
  if (metadata_.empty()) return {};
  const dom::object object = *static_cast<const dom::object*>(opaque);
  if (out_.fields.empty()) out_.fields = field_names(object);
  for (size_t i = 0; i < metadata_.size(); ++i) {
    const std::string& name = source_.metadata_columns[i];
    std::optional<dom::element> found;
    std::string fault = find_field(object, name, &found);
    if (!found) continue;
    out_.columns_seen |= uint64_t{1} << i;
    if (fault.empty()) fault = take_value(name, *found, &metadata_[i]);
    if (!fault.empty()) return fault;
  }
  return {};
}

NamedMedia JsonRowParser::take_media(const void* opaque) const {
  return json_media(source_.media, *static_cast<const dom::object*>(opaque));
}

std::string JsonRowParser::take_text(const void* opaque) {
  const dom::element element = *static_cast<const dom::element*>(opaque);
  std::string_view text;
  if (element.get(text)) return wrong_type(source_.text_column, element.type(), "a string");
  if (is_blank(text)) return empty_row("empty text in field " + quote(source_.text_column));
  out_.text.rows.bytes.append(text);
  return {};
}

std::string JsonRowParser::take_schema_text(const void* opaque) {
  std::string fault = take_metadata(opaque);
  if (!fault.empty()) return fault;
  std::string& bytes = out_.text.rows.bytes;
  const size_t before = bytes.size();
  fault = append_schema_text(source_, *static_cast<const dom::object*>(opaque), &bytes);
  if (!fault.empty()) bytes.resize(before);
  return fault;
}

std::string JsonRowParser::take_tokens(const void* opaque_tokens, const void* opaque_mask) {
  const dom::element element = *static_cast<const dom::element*>(opaque_tokens);
  dom::array array;
  if (element.get(array)) return wrong_type(source_.token_column, element.type(), "an array");
  auto* ids = reinterpret_cast<int32_t*>(token_buffer_.data.get());
  const uint64_t room = token_buffer_.size / sizeof(int32_t);
  const uint64_t begin = token_count_;
  for (const dom::element value : array) {
    const size_t index = token_count_ - begin;
    int64_t id = 0;
    if (value.get(id)) {
      return wrong_type(source_.token_column + "[" + std::to_string(index) + "]", value.type(),
                        "an integer");
    }
    if (id < 0 || id > std::numeric_limits<int32_t>::max()) {
      return "token id " + std::to_string(id) + " at " + at_index(source_.token_column, index) +
             " is no token id";
    }
    OVERLORD_CHECK(token_count_ < room, "a number takes at least two bytes of JSON");
    ids[token_count_++] = static_cast<int32_t>(id);
  }
  if (token_count_ == begin) {
    return empty_row("field " + quote(source_.token_column) + " is an empty array");
  }
  if (opaque_mask == nullptr) return {};

  const dom::element mask = *static_cast<const dom::element*>(opaque_mask);
  if (mask.get(array)) return wrong_type(source_.mask_column, mask.type(), "an array");
  uint64_t at = begin;
  for (const dom::element value : array) {
    bool flag = false;
    int64_t number = 0;
    const bool is_number = !value.get(number) && (number == 0 || number == 1);
    if (!is_number && value.get(flag)) {
      return at_index(source_.mask_column, at - begin) + " is neither a boolean nor 0 or 1";
    }
    if (at == token_count_) {
      ++at;
      break;
    }
    mask_buffer_.data.get()[at++] = static_cast<char>(is_number ? number == 1 : flag);
  }
  if (at == token_count_) return {};
  return "mask " + quote(source_.mask_column) + " has another length than " +
         quote(source_.token_column);
}

RowBlock JsonRowParser::take() {
  if (!out_.is_text) {
    out_.tokens.element = Element::kI32;
    token_buffer_.size = token_count_ * sizeof(int32_t);
    out_.tokens.values = token_buffer_.view();
    if (!source_.mask_column.empty()) {
      mask_buffer_.size = token_count_;
      out_.tokens.mask = mask_buffer_.view();
    }
    check_token_ids(source_.vocabulary, name_, &out_.tokens);
  }
  return std::move(out_);
}

}  // namespace overlord::columnar
