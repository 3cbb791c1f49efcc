// What counts as text in any format.
#pragma once

#include <string_view>

namespace overlord::columnar {

bool is_valid_utf8(std::string_view text);
// Empty, or nothing but white space as Unicode has it. `text` is valid UTF-8.
bool is_blank(std::string_view text);

}  // namespace overlord::columnar
