// Values of metadata columns: whole numbers in [0, 2^32), what cost models take. How a value that
// is none is refused, for all formats.
#pragma once

#include <string>
#include <string_view>

#include "overlord/runtime/quote.h"

namespace overlord::columnar {

inline std::string metadata_fault(std::string_view column, std::string_view value) {
  return "metadata column " + runtime::quote(column) + " is " + std::string(value) +
         ", allowed: 0 to 4294967295";
}

}  // namespace overlord::columnar
