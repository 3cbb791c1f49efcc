// KeyedPermutation: a random-looking bijection of [0, n) that stores nothing but its keys.
// A generalised Feistel network: i is written as (left, right) in mixed radix a x b with
// a = ceil(sqrt(n)), b = ceil(n / a); rounds add a keyed function of one side to the other.
// a * b is n or barely more, so cycle walking (apply again while outside [0, n)) nearly never
// happens.
#pragma once

#include <array>
#include <cstdint>

namespace overlord {

class KeyedPermutation {
 public:
  // 1 <= n <= 2^63.
  KeyedPermutation(uint64_t n, uint64_t key);

  uint64_t size() const { return n_; }
  uint64_t operator()(uint64_t i) const {
    do i = forward(i);
    while (i >= n_);
    return i;
  }
  uint64_t inverse(uint64_t i) const {
    do i = backward(i);
    while (i >= n_);
    return i;
  }

 private:
  // Six rounds are the least for a Feistel network to look random. Tiny sets have few different
  // round functions, so they take more; there nobody counts nanoseconds.
  static constexpr int kRounds = 6;
  static constexpr int kRoundsOfSmall = 16;
  static constexpr uint64_t kSmall = 1024;

  struct RoundKey {
    uint32_t mask;
    uint32_t multiplier;  // odd
  };

  // A value in [0, range) out of one side: two products mix, a third scales. 32-bit factors,
  // because a 64 x 64 product costs four times as much on some CPUs.
  static uint32_t round_value(uint32_t side, RoundKey key, uint32_t range) {
    const uint64_t product = uint64_t{side ^ key.mask} * key.multiplier;
    const uint32_t mixed = static_cast<uint32_t>(product ^ (product >> 32)) * 0x9E3779B1u;
    return static_cast<uint32_t>((uint64_t{mixed} * range) >> 32);
  }
  // a + b and a - b modulo range, without a branch: it would be guessed wrong half of the time.
  static uint32_t subtract(uint32_t a, uint32_t b, uint32_t range) {
    const uint32_t difference = a - b;
    const uint32_t wrapped = difference + range;
    return a < b ? wrapped : difference;
  }
  static uint32_t add(uint32_t a, uint32_t b, uint32_t range) {
    return subtract(a, range - b, range);
  }
  uint64_t forward(uint64_t i) const {
    uint32_t left = static_cast<uint32_t>(i / right_range_);
    uint32_t right = static_cast<uint32_t>(i % right_range_);
    for (int round = 0; round < rounds_; round += 2) {
      left = add(left, round_value(right, keys_[round], left_range_), left_range_);
      right = add(right, round_value(left, keys_[round + 1], right_range_), right_range_);
    }
    return uint64_t{left} * right_range_ + right;
  }
  uint64_t backward(uint64_t i) const {
    uint32_t left = static_cast<uint32_t>(i / right_range_);
    uint32_t right = static_cast<uint32_t>(i % right_range_);
    for (int round = rounds_ - 2; round >= 0; round -= 2) {
      right = subtract(right, round_value(left, keys_[round + 1], right_range_), right_range_);
      left = subtract(left, round_value(right, keys_[round], left_range_), left_range_);
    }
    return uint64_t{left} * right_range_ + right;
  }

  uint64_t n_;
  uint32_t left_range_;
  uint32_t right_range_;
  int rounds_;
  std::array<RoundKey, kRoundsOfSmall> keys_;
};

}  // namespace overlord
