// What steps of all chains ask of their values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "overlord/base/status.h"

namespace overlord::media {

inline Status within(std::string_view name, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return {};
  return invalid_argument(std::string(name) + " must be " + std::to_string(low) + " to " +
                          std::to_string(high) + "; got " + std::to_string(value));
}

}  // namespace overlord::media
