// Sines, exponentials and logarithms that are the same bits on every machine. A C library may
// choose its code by the CPU and answer with another last digit; these are sums and products in a
// fixed order, which IEEE 754 defines to the bit. For tables: exact to a few units of the last
// place, not fast.
#pragma once

#include <array>
#include <cstdint>

namespace overlord::media {

inline constexpr double kPi = 3.14159265358979323846;

// sin and cos of `numerator / denominator` full turns; the fraction is reduced in integers.
double sin_of_turn(int64_t numerator, int64_t denominator);
double cos_of_turn(int64_t numerator, int64_t denominator);

double fixed_exp(double x);  // for |x| <= 100
double fixed_log(double x);  // for x > 0

// I0(beta sqrt(1 - x^2)) / I0(beta), for beta up to 14.
class KaiserWindow {
 public:
  explicit KaiserWindow(double beta);
  double at(double part) const;  // of the way from the middle to the end: -1 to 1

 private:
  std::array<double, 40> terms_ = {};
};

}  // namespace overlord::media
