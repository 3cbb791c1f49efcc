// Thousandths of cores, for people.
#pragma once

#include <cstdint>
#include <string>

namespace overlord::plan {

inline constexpr uint64_t kMilli = 1000;

inline std::string cores_text(uint64_t millicores) {
  const uint64_t tenths = (millicores + 50) / 100;
  std::string out = std::to_string(tenths / 10);
  if (tenths % 10 != 0) out += "." + std::to_string(tenths % 10);
  return out + (tenths == 10 ? " core" : " cores");
}

}  // namespace overlord::plan
