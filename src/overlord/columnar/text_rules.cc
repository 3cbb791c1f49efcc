#include "overlord/columnar/text_rules.h"

#include <simdjson.h>

#include <utility>

namespace overlord::columnar {
namespace {

constexpr std::string_view kEmptyRow = " (empty row)";

// Bytes of the white space character at the front of `text`, 0 when there is none.
size_t white_space(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first == ' ' || (first >= '\t' && first <= '\r')) return 1;
  if (first < 0x80) return 0;
  if (text.starts_with("\u0085") || text.starts_with("\u00a0")) return 2;
  for (const std::string_view space :
       {"\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006", "\u2007",
        "\u2008", "\u2009", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"}) {
    if (text.starts_with(space)) return space.size();
  }
  return 0;
}

}  // namespace

bool is_valid_utf8(std::string_view text) {
  return simdjson::validate_utf8(text.data(), text.size());
}

bool is_blank(std::string_view text) {
  while (!text.empty()) {
    const size_t size = white_space(text);
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

std::string empty_row(std::string what) { return std::move(what.append(kEmptyRow)); }

bool tells_empty_row(std::string_view reason) { return reason.ends_with(kEmptyRow); }

}  // namespace overlord::columnar
