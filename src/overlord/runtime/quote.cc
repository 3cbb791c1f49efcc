#include "overlord/runtime/quote.h"

namespace overlord::runtime {
namespace {

void append_escaped(std::string_view text, std::string* out) {
  static const char* digits = "0123456789abcdef";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f || c == '\'' || c == '\\') {
      *out += "\\x";
      *out += digits[byte >> 4];
      *out += digits[byte & 15];
    } else {
      *out += c;
    }
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
