// What counts as text in any format.
#pragma once

#include <string>
#include <string_view>

namespace overlord::columnar {

bool is_valid_utf8(std::string_view text);
// Empty, or nothing but white space as Unicode has it. `text` is valid UTF-8.
bool is_blank(std::string_view text);

// What is wrong with a row that holds nothing: `what`, and words at the end that tell it from every
// other bad row, also where only the index has the reason.
std::string empty_row(std::string what);
bool tells_empty_row(std::string_view reason);

}  // namespace overlord::columnar
