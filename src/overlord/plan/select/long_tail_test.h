// Lengths with a long tail for tests of hybrid data parallelism: four in five sequences have 4 K
// tokens or fewer, one in a hundred has 128 K or more and these hold almost half of all tokens, one
// in two thousand reaches 2 M. Sequences over the context are cut.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "overlord/base/rng.h"

namespace overlord::plan {

inline std::vector<uint32_t> long_tail(uint64_t seed, uint64_t tokens, uint32_t context) {
  struct Class {
    uint32_t first;
    uint32_t last;
    uint32_t per_10000;
  };
  static constexpr std::array<Class, 8> kClasses = {{{64, 512, 2500},
                                                     {512, 4096, 5500},
                                                     {4096, 32'768, 1650},
                                                     {32'768, 131'072, 250},
                                                     {131'072, 262'144, 37},
                                                     {262'144, 524'288, 55},
                                                     {524'288, 2'097'152, 3},
                                                     {2'097'152, 2'600'000, 5}}};
  const uint64_t key = derive_key(seed, "long tail");
  std::vector<uint32_t> lengths;
  for (uint64_t i = 0, sum = 0; sum < tokens; ++i) {
    uint64_t left = uniform_below(key, i, 0, 10'000);
    size_t c = 0;
    while (left >= kClasses[c].per_10000) left -= kClasses[c++].per_10000;
    // Shorter ones are likelier within a class too: the smaller of two draws.
    const uint64_t span = kClasses[c].last - kClasses[c].first;
    uint64_t length = kClasses[c].first +
                      std::min(uniform_below(key, i, 1, span), uniform_below(key, i, 2, span));
    for (; length > 0 && sum < tokens;) {
      const uint64_t piece = std::min({length, uint64_t{context}, tokens - sum});
      lengths.push_back(static_cast<uint32_t>(piece));
      length -= piece;
      sum += piece;
    }
  }
  return lengths;
}

}  // namespace overlord::plan
