#include "overlord/media/fixed_math.h"

#include <cstddef>

namespace overlord::media {
namespace {

// For 0 <= x <= pi / 4: 1 - x^2 / (2 * 3) * (1 - x^2 / (4 * 5) * ...), and likewise for the cosine.
constexpr double kSinSteps[] = {1.0 / 6,   1.0 / 20,  1.0 / 42,  1.0 / 72,
                                1.0 / 110, 1.0 / 156, 1.0 / 210, 1.0 / 272};
constexpr double kCosSteps[] = {1.0 / 2,  1.0 / 12,  1.0 / 30,  1.0 / 56,
                                1.0 / 90, 1.0 / 132, 1.0 / 182, 1.0 / 240};
double nested(const double (&steps)[8], double square) {
  double value = 1;
  for (int k = 7; k >= 0; --k) value = 1 - square * steps[k] * value;
  return value;
}
double small_sin(double x) { return x * nested(kSinSteps, x * x); }
double small_cos(double x) { return nested(kCosSteps, x * x); }

constexpr double kLog2 = 0.693147180559945309417;

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
  int power = 0;  // of two; what is left is at most half of log 2
  for (; x > kLog2 / 2; x -= kLog2) ++power;
  for (; x < -kLog2 / 2; x += kLog2) --power;
  double value = 1;
  for (int k = 18; k >= 1; --k) value = 1 + value * x / k;
  for (; power > 0; --power) value *= 2;
  for (; power < 0; ++power) value /= 2;
  return value;
}

double fixed_log(double x) {
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

KaiserWindow::KaiserWindow(double beta) {
  // I0(beta sqrt(u)) is a power series in u: (beta^2 / 4)^k / (k!)^2.
  terms_[0] = 1;
  double at_one = 1;
  for (size_t k = 1; k < terms_.size(); ++k) {
    terms_[k] = terms_[k - 1] * (beta * beta / 4) / static_cast<double>(k * k);
    at_one += terms_[k];
  }
  for (double& term : terms_) term /= at_one;
}

double KaiserWindow::at(double part) const {
  const double u = 1 - part * part;
  double value = 0;
  for (size_t k = terms_.size(); k-- > 0;) value = value * u + terms_[k];
  return value;
}

}  // namespace overlord::media
