#include "overlord/media/fixed_math.h"

namespace overlord::media {
namespace {

// For 0 <= x <= pi / 4.
double small_sin(double x) {
  double sum = 0;
  for (int k = 21; k >= 3; k -= 2) sum = (1 + sum) * (-x * x / (k * (k - 1)));
  return x * (1 + sum);
}
double small_cos(double x) {
  double sum = 0;
  for (int k = 20; k >= 2; k -= 2) sum = (1 + sum) * (-x * x / (k * (k - 1)));
  return 1 + sum;
}

}  // namespace

double sin_of_turn(int64_t numerator, int64_t denominator) {
  // In eighths of a turn over an even denominator, so that halves and quarters are whole numbers.
  const int64_t whole = 8 * denominator;
  int64_t n = 8 * (numerator % denominator);
  if (n < 0) n += whole;
  double sign = 1;
  if (2 * n >= whole) {
    n -= whole / 2;
    sign = -1;
  }
  if (4 * n > whole) n = whole / 2 - n;
  const double turn = 2 * kPi / static_cast<double>(whole);
  if (8 * n <= whole) return sign * small_sin(turn * static_cast<double>(n));
  return sign * small_cos(turn * static_cast<double>(whole / 4 - n));
}

double cos_of_turn(int64_t numerator, int64_t denominator) {
  return sin_of_turn(4 * numerator + denominator, 4 * denominator);
}

double fixed_exp(double x) {
  // exp(x) = exp(x / 1024)^1024, by ten squarings.
  const double small = x / 1024;
  double sum = 0;
  for (int k = 16; k >= 1; --k) sum = (1 + sum) * (small / k);
  double value = sum;  // exp(small) - 1, kept so that squaring loses nothing of it
  for (int i = 0; i < 10; ++i) value = value * (2 + value);
  return 1 + value;
}

double fixed_log(double x) {
  constexpr double kLog2 = 0.693147180559945309417;
  int exponent = 0;
  while (x > 1.5) {
    x /= 2;
    ++exponent;
  }
  while (x < 0.75) {
    x *= 2;
    --exponent;
  }
  const double t = (x - 1) / (x + 1);
  double sum = 0;
  for (int k = 41; k >= 1; k -= 2) sum = sum * (t * t) + 1.0 / k;
  return exponent * kLog2 + 2 * t * sum;
}

double bessel_i0(double x) {
  const double quarter = x * x / 4;
  double term = 1;
  double sum = 1;
  for (int k = 1; k <= 120; ++k) {
    term = term * quarter / (static_cast<double>(k) * k);
    sum += term;
    if (term < sum * 1e-18) break;
  }
  return sum;
}

}  // namespace overlord::media
