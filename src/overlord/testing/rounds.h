// How often a test of chance tries: a few times in `make test`, as often as it was meant to in
// `make soak`, which sets OVERLORD_SOAK. Test only.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace overlord {

inline uint64_t rounds(uint64_t usual, uint64_t soak) {
  return std::getenv("OVERLORD_SOAK") == nullptr ? usual : soak;
}

}  // namespace overlord
