// Chance without state: every random number is a function of a key and counters (Philox4x32-10).
// The same on every CPU, in any order of asking, so a stream can be entered at any step.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace overlord {

// The bare generator of Salmon et al. (Random123), ten rounds.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// 64 random bits named by (key, a, b, c). Different counters under one key never share an input.
uint64_t random_u64(uint64_t key, uint64_t a, uint64_t b = 0, uint64_t c = 0);

// Uniform in [0, n), n > 0, exactly: no modulo bias. Rejected tries advance the third counter.
uint64_t uniform_below(uint64_t key, uint64_t a, uint64_t b, uint64_t n);

// A key for one purpose: `tag` names it ("order/web"), `n` numbers it (a pass, a window).
uint64_t derive_key(uint64_t seed, std::string_view tag, uint64_t n = 0);

}  // namespace overlord
