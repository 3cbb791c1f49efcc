#include "overlord/base/enum_names.h"

namespace overlord {

std::string snake_name(std::string_view enumerator) {
  std::string out;
  for (const char c : enumerator.substr(enumerator.rfind(':') + 2)) {  // after the k
    const bool capital = c >= 'A' && c <= 'Z';
    if (capital && !out.empty()) out += '_';
    out += capital ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return out;
}

}  // namespace overlord
