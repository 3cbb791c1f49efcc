#include "overlord/base/permutation.h"

#include "overlord/base/check.h"
#include "overlord/base/rng.h"

namespace overlord {
namespace {

// ceil(sqrt(n)) bit by bit: no floating point, so the same on every CPU.
uint64_t ceil_sqrt(uint64_t n) {
  uint64_t root = 0;  // floor(sqrt(n - 1))
  for (uint64_t bit = uint64_t{1} << 31; bit != 0; bit >>= 1) {
    const uint64_t next = root | bit;
    if (next * next <= n - 1) root = next;
  }
  return root + 1;
}

}  // namespace

KeyedPermutation::KeyedPermutation(uint64_t n, uint64_t key) : n_(n) {
  OVERLORD_CHECK(n >= 1 && n <= uint64_t{1} << 63, "permutation of an impossible size");
  left_range_ = static_cast<uint32_t>(ceil_sqrt(n));
  right_range_ = static_cast<uint32_t>((n - 1) / left_range_ + 1);
  rounds_ = n < kSmall ? kRoundsOfSmall : kRounds;
  for (int round = 0; round < rounds_; ++round) {
    const uint64_t bits = random_u64(key, round);
    keys_[round] = {static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32) | 1u};
  }
}

}  // namespace overlord
