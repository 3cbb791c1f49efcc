// exp, log, square root and the raised cosine in fixed point: the same bits on every CPU, because
// every operation is on integers (law 10). Values count 2^-32 ("Q32"): 1.0 == kFixedOne. Results
// are within 2^-31 of the true value.
#pragma once

#include <cstdint>

#include "overlord/base/fixed_point.h"

namespace overlord {

inline constexpr int kFixedBits = 32;
inline constexpr int64_t kFixedOne = int64_t{1} << kFixedBits;

// e^x; x <= 21. Below about -22.9 the result is 0.
int64_t fixed_exp(int64_t x);
// Natural logarithm; x > 0.
int64_t fixed_log(int64_t x);
// Natural logarithm of a whole number; n > 0.
int64_t fixed_log_of(uint64_t n);
// Square root, rounded down; x >= 0.
int64_t fixed_sqrt(int64_t x);
// (1 - cos(pi * part / whole)) / 2: rises smoothly from 0 to 1; 0 <= part <= whole, whole > 0.
int64_t fixed_raised_cosine(uint64_t part, uint64_t whole);
// a * b, rounded down.
constexpr int64_t fixed_mul(int64_t a, int64_t b) {
  const Int128 product = (Int128{a} * b) >> kFixedBits;
  OVERLORD_CHECK(fits_int64(product), "a fixed-point product leaves 64 bits");
  return static_cast<int64_t>(product);
}

}  // namespace overlord
