// What a file of bare tokens is: an array of NumPy, a shard of llm.c, or numbers without a header.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "overlord/base/status.h"
#include "overlord/model/element.h"

namespace overlord::columnar {

struct RawLayout {
  model::Element element = model::Element::kU16;
  uint64_t begin = 0;  // offset of the first token
  uint64_t tokens = 0;
};

inline constexpr uint64_t kRawHeadBytes = 64 << 10;  // enough for every header that is known

// From the first bytes of a file, all of them or kRawHeadBytes. `declared` is what the config says;
// a header that says something else is refused, and so are numbers without a header and without it.
Result<RawLayout> raw_layout(std::string_view head, uint64_t size_bytes,
                             std::optional<model::Element> declared);

}  // namespace overlord::columnar
