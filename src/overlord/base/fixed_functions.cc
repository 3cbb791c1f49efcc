// Series in 2^-60 with 128-bit products: enough terms that the last one is below 2^-60.
#include "overlord/base/fixed_functions.h"

#include <bit>

namespace overlord {
namespace {

constexpr int kBits = 60;
constexpr Int128 kOne = Int128{1} << kBits;
constexpr Int128 kLn2 = 799'144'290'325'165'979;   // ln 2 * 2^60
constexpr Int128 kPi = 3'622'009'729'038'561'421;  // pi * 2^60

constexpr Int128 mul(Int128 a, Int128 b) { return (a * b) >> kBits; }

// ln(m) of m in [1, 2): 2 atanh((m - 1) / (m + 1)), whose argument is below 1/3.
Int128 log_mantissa(Int128 m) {
  const Int128 z = ((m - kOne) << kBits) / (m + kOne);
  const Int128 square = mul(z, z);
  Int128 power = z;
  Int128 sum = 0;
  for (int k = 1; power != 0; k += 2) {
    sum += power / k;
    power = mul(power, square);
  }
  return 2 * sum;
}

// ln(n * 2^-point_bits), n > 0.
int64_t log_scaled(uint64_t n, int point_bits) {
  const int top = 63 - std::countl_zero(n);
  const Int128 mantissa = top <= kBits ? Int128{n} << (kBits - top) : Int128{n} >> (top - kBits);
  const Int128 result = kLn2 * (top - point_bits) + log_mantissa(mantissa);
  return static_cast<int64_t>(result >> (kBits - kFixedBits));
}

// cos(x) of x in [0, pi/2].
Int128 cosine(Int128 x) {
  const Int128 square = mul(x, x);
  Int128 term = kOne;
  Int128 sum = 0;
  for (int k = 1; term != 0; k += 2) {
    sum += term;
    term = -mul(term, square) / (k * (k + 1));
  }
  return sum;
}

}  // namespace

int64_t fixed_exp(int64_t x) {
  OVERLORD_CHECK(x <= 21 * kFixedOne, "exp of more than 21 leaves 64 bits");
  const Int128 wide = Int128{x} << (kBits - kFixedBits);
  const Int128 halvings = floor_div(wide, kLn2);
  if (halvings < -kFixedBits - 1) return 0;
  const Int128 rest = wide - halvings * kLn2;  // in [0, ln 2)
  Int128 term = kOne;
  Int128 sum = 0;
  for (int k = 1; term != 0; ++k) {
    sum += term;
    term = mul(term, rest) / k;
  }
  return static_cast<int64_t>(sum >> (kBits - kFixedBits - static_cast<int>(halvings)));
}

int64_t fixed_log(int64_t x) {
  OVERLORD_CHECK(x > 0, "logarithm of a number that is not positive");
  return log_scaled(static_cast<uint64_t>(x), kFixedBits);
}

int64_t fixed_log_of(uint64_t n) {
  OVERLORD_CHECK(n > 0, "logarithm of zero");
  return log_scaled(n, 0);
}

int64_t fixed_sqrt(int64_t x) {
  OVERLORD_CHECK(x >= 0, "square root of a negative number");
  const Uint128 wide = static_cast<Uint128>(x) << kFixedBits;
  Uint128 root = 0;
  for (Uint128 bit = Uint128{1} << 47; bit != 0; bit >>= 1) {
    const Uint128 tried = root | bit;
    if (tried * tried <= wide) root = tried;
  }
  return static_cast<int64_t>(root);
}

int64_t fixed_raised_cosine(uint64_t part, uint64_t whole) {
  OVERLORD_CHECK(whole > 0 && part <= whole, "a part of a whole");
  // The curve is its own mirror image: the upper half is 1 minus the lower.
  const bool upper = part > whole - part;
  const uint64_t lower = upper ? whole - part : part;
  // part / whole in 2^-60, one bit at a time where the numbers are too long for one division.
  Int128 share = 0;
  Uint128 rest = lower;
  for (int bit = 0; bit < kBits; ++bit) {
    rest <<= 1;
    share <<= 1;
    if (rest >= whole) {
      rest -= whole;
      share |= 1;
    }
  }
  const Int128 rise = (kOne - cosine(mul(kPi, share))) / 2;
  const auto result = static_cast<int64_t>(rise >> (kBits - kFixedBits));
  return upper ? kFixedOne - result : result;
}

}  // namespace overlord
