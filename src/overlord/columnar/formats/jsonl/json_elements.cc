#include "overlord/columnar/formats/jsonl/json_elements.h"

#include <string>

#include "overlord/columnar/formats/jsonl/jsonl_reader.h"

namespace overlord::columnar {
namespace {

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

}  // namespace

Status ElementScanner::add(std::string_view piece, uint64_t offset) {
  for (size_t i = 0; i < piece.size(); ++i) {
    const char c = piece[i];
    if (string_ || state_ == State::kNested) {
      if (in_string(c)) continue;
      if (c == '{' || c == '[') ++depth_;
      if ((c == '}' || c == ']') && --depth_ == 0) {
        end_(offset + i + 1);
        state_ = State::kBetween;
      }
      continue;
    }
    OVERLORD_RETURN_IF_ERROR(step(c, offset + i));
  }
  return {};
}

bool ElementScanner::in_string(char c) {
  if (!string_) {
    string_ = c == '"';
    return string_;
  }
  if (escaped_) {
    escaped_ = false;
  } else if (c == '\\') {
    escaped_ = true;
  } else if (c == '"') {
    string_ = false;
  }
  return true;
}

Status ElementScanner::step(char c, uint64_t offset) {
  switch (state_) {
    case State::kBefore:
      if (c == '[') state_ = State::kBetween;  // what else may stand before it was looked at
      return {};
    case State::kPlain:
      if (in_string(c)) return {};
      if (!is_space(c) && c != ',' && c != ']') return {};
      end_(offset);
      state_ = State::kBetween;
      return between(c, offset);
    case State::kBetween:
      return between(c, offset);
    case State::kNested:
      return {};
    case State::kAfter:
      break;
  }
  if (is_space(c)) return {};
  return bad_data("has bytes behind the end of its array at offset " + std::to_string(offset) +
                  "; rows are the elements of one array, or lines");
}

Status ElementScanner::between(char c, uint64_t offset) {
  if (is_space(c) || c == ',') return {};
  if (c == ']') {
    state_ = State::kAfter;
    return {};
  }
  begin_(offset);
  const bool nested = c == '{' || c == '[';
  state_ = nested ? State::kNested : State::kPlain;
  depth_ = nested ? 1 : 0;
  if (!nested) in_string(c);
  return {};
}

Status ElementScanner::finish(uint64_t offset) {
  if (inside_) {
    if (state_ == State::kPlain) end_(offset);
    return {};
  }
  if (state_ == State::kAfter) return {};
  return bad_data("is cut short: its array has no end (the text has " + std::to_string(offset) +
                  " bytes)");
}

bool may_be_array(std::string_view uri) {
  for (const std::string_view coding : {".gz", ".zst"}) {
    if (uri.ends_with(coding)) uri.remove_suffix(coding.size());
  }
  return uri.ends_with(".json");
}

bool begins_array(std::string_view text) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const size_t ink = text.find_first_not_of(" \t\r\n");
  return ink != std::string_view::npos && text[ink] == '[';
}

}  // namespace overlord::columnar
