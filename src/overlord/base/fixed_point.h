// Exact arithmetic for plans: 64-bit values, 128-bit products, and one stated rounding each.
// Nothing here rounds to nearest: a share is rounded down, a deadline up, and the name says which.
#pragma once

#include <cstdint>
#include <limits>

#include "overlord/base/check.h"

namespace overlord {

__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 Uint128;

// a / b rounded towards minus infinity; b > 0.
constexpr Int128 floor_div(Int128 a, Int128 b) {
  const Int128 quotient = a / b;
  return quotient - (a % b < 0 ? 1 : 0);
}

// a / b rounded towards plus infinity; b > 0.
constexpr Int128 ceil_div(Int128 a, Int128 b) {
  const Int128 quotient = a / b;
  return quotient + (a % b > 0 ? 1 : 0);
}

constexpr bool fits_int64(Int128 value) {
  return value >= std::numeric_limits<int64_t>::min() &&
         value <= std::numeric_limits<int64_t>::max();
}

// a * b / c without losing a bit on the way, rounded down (towards minus infinity); c > 0.
constexpr int64_t mul_div_floor(int64_t a, int64_t b, int64_t c) {
  OVERLORD_CHECK(c > 0, "mul_div by a number that is not positive");
  const Int128 result = floor_div(Int128{a} * b, c);
  OVERLORD_CHECK(fits_int64(result), "mul_div leaves 64 bits");
  return static_cast<int64_t>(result);
}

// The same, rounded up (towards plus infinity).
constexpr int64_t mul_div_ceil(int64_t a, int64_t b, int64_t c) {
  OVERLORD_CHECK(c > 0, "mul_div by a number that is not positive");
  const Int128 result = ceil_div(Int128{a} * b, c);
  OVERLORD_CHECK(fits_int64(result), "mul_div leaves 64 bits");
  return static_cast<int64_t>(result);
}

// The least multiple of `unit` that is >= value; unit > 0.
constexpr uint64_t round_up(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace overlord
