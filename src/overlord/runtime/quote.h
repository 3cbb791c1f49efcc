// quote(): how names that came from outside (URIs, file names, columns) enter a message.
// Control bytes and what is not UTF-8 are escaped and the length is capped: a file name cannot
// forge log lines, and every message is text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace overlord::runtime {

inline constexpr size_t kQuoteLimit = 300;

// `text` in single quotes; the middle of a longer one is left out.
std::string quote(std::string_view text, size_t limit = kQuoteLimit);

}  // namespace overlord::runtime
