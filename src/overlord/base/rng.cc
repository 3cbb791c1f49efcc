#include "overlord/base/rng.h"

#include "overlord/base/check.h"
#include "overlord/base/fixed_point.h"
#include "overlord/base/hash.h"

namespace overlord {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53u;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57u;
constexpr uint32_t kWeyl0 = 0x9E3779B9u;
constexpr uint32_t kWeyl1 = 0xBB67AE85u;
constexpr int kRounds = 10;

uint32_t low_word(uint64_t value) { return static_cast<uint32_t>(value); }
uint32_t high_word(uint64_t value) { return static_cast<uint32_t>(value >> 32); }

// The finaliser of SplitMix64: a bijection that keeps 0, so c = 0 leaves the key as it is.
uint64_t scatter(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ull;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBull;
  return value ^ (value >> 31);
}

}  // namespace

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t product0 = uint64_t{kMultiplier0} * counter[0];
    const uint64_t product1 = uint64_t{kMultiplier1} * counter[2];
    counter = {high_word(product1) ^ counter[1] ^ key[0], low_word(product1),
               high_word(product0) ^ counter[3] ^ key[1], low_word(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

uint64_t random_u64(uint64_t key, uint64_t a, uint64_t b, uint64_t c) {
  // a and b fill the 128-bit counter; c, which is nearly always 0, goes into the key.
  key ^= scatter(c);
  const auto words = philox4x32({low_word(a), high_word(a), low_word(b), high_word(b)},
                                {low_word(key), high_word(key)});
  return uint64_t{words[0]} | uint64_t{words[1]} << 32;
}

uint64_t uniform_below(uint64_t key, uint64_t a, uint64_t b, uint64_t n) {
  OVERLORD_CHECK(n > 0, "uniform_below of an empty range");
  // Lemire: the high half of a 64 x 64 product, rejecting the low halves that would be counted
  // twice.
  const uint64_t excess = (0 - n) % n;  // 2^64 mod n
  for (uint64_t attempt = 0;; ++attempt) {
    const Uint128 product = Uint128{random_u64(key, a, b, attempt)} * n;
    if (static_cast<uint64_t>(product) >= excess) return static_cast<uint64_t>(product >> 64);
  }
}

uint64_t derive_key(uint64_t seed, std::string_view tag, uint64_t n) {
  return random_u64(seed, n, hash64(tag.data(), tag.size()));
}

}  // namespace overlord
