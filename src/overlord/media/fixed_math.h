// Sines, exponentials and logarithms that are the same bits on every machine. A C library may
// choose its code by the CPU and answer with another last digit; these are sums and products in a
// fixed order, which IEEE 754 defines to the bit. For tables: exact to a few units of the last
// place, not fast.
#pragma once

#include <cstdint>

namespace overlord::media {

inline constexpr double kPi = 3.14159265358979323846;

// sin and cos of `numerator / denominator` full turns; the fraction is reduced in integers.
double sin_of_turn(int64_t numerator, int64_t denominator);
double cos_of_turn(int64_t numerator, int64_t denominator);

double fixed_exp(double x);  // for |x| <= 100
double fixed_log(double x);  // for x > 0

// The modified Bessel function of order 0, for 0 <= x <= 50.
double bessel_i0(double x);

}  // namespace overlord::media
