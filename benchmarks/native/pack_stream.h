// Best fit over a stream of lengths, for `overlord bench packing`.
#pragma once

#include <cstdint>
#include <span>

namespace overlord::bench {

struct PackStats {
  uint64_t documents = 0;
  uint64_t tokens = 0;
  uint64_t steps = 0;
  uint32_t fill_ppm = 0;   // tokens over capacity, steps in which the documents lasted
  uint32_t max_delay = 0;  // steps
};

// Draws and packs documents of these lengths by best fit, one source, until all are placed: what
// a planner does with them. Documents longer than `context` are split.
PackStats pack_stream(std::span<const uint32_t> lengths, uint32_t context, uint32_t bins,
                      uint32_t slack_permille, uint32_t max_delay_steps);

}  // namespace overlord::bench
