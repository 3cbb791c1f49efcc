#include "overlord/runtime/quote.h"

#include <cstdint>

namespace overlord::runtime {
namespace {

// Length of the well-formed UTF-8 character of several bytes that `text` begins with, else 0.
size_t character_size(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  const size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < size) return 0;
  for (size_t i = 1; i < size; ++i) {
    if (byte(i) >> 6 != 2) return 0;
  }
  const uint8_t next = byte(1);
  const bool overlong = (lead == 0xe0 && next < 0xa0) || (lead == 0xf0 && next < 0x90);
  const bool surrogate = lead == 0xed && next >= 0xa0;
  const bool beyond = lead == 0xf4 && next >= 0x90;
  const bool control = lead == 0xc2 && next < 0xa0;
  return overlong || surrogate || beyond || control ? 0 : size;
}

void append_escaped(std::string_view text, std::string* out) {
  static const char* digits = "0123456789abcdef";
  while (!text.empty()) {
    const auto byte = static_cast<uint8_t>(text[0]);
    const size_t wide = byte < 0x80 ? 0 : character_size(text);
    const bool plain = byte >= 0x20 && byte < 0x7f && byte != '\'' && byte != '\\';
    const size_t taken = wide > 0 ? wide : 1;
    if (wide > 0 || plain) {
      out->append(text.substr(0, taken));
    } else {
      *out += "\\x";
      *out += digits[byte >> 4];
      *out += digits[byte & 15];
    }
    text.remove_prefix(taken);
  }
}

}  // namespace

std::string quote(std::string_view text, size_t limit) {
  std::string out = "'";
  if (text.size() <= limit) {
    append_escaped(text, &out);
  } else {
    append_escaped(text.substr(0, limit / 2), &out);
    out += "...";
    append_escaped(text.substr(text.size() - limit / 2), &out);
  }
  out += '\'';
  return out;
}

}  // namespace overlord::runtime
