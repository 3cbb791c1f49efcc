// The inverse transform of JPEG blocks to 8x8, 4x4, 2x2 or 1x1 samples, bit for bit as
// libjpeg-turbo's accurate integer transform gives them: 13-bit constants, columns first, two more
// bits kept between the passes. The smaller sizes are the averages of pairs and quads of the
// 8-point transform, each axis for itself. Blocks are gathered until their rows fill the vectors.
#pragma once

#include <cstddef>
#include <cstdint>

namespace overlord::media {

// Dequantised coefficients, row by row. One more place takes what lies behind the last.
struct CoefficientBlock {
  static constexpr size_t kBeyond = 64;
  alignas(16) int16_t values[kBeyond + 8] = {};
};

// Up to this sum of squares (a block of black and white has 1024^2), no step of the transform
// leaves 16 bits between the passes in any of libjpeg-turbo's implementations, which differ beyond
// that: a number between the passes is at most 4 * root(8) times the root of the sum, and they add
// up to four of a row in 16 bits, together at most twice as much.
constexpr int64_t kTamestEnergy = 1400 * 1400;
// The same for the average alone, of which libjpeg's 1x1 transform keeps the low bits only.
constexpr int64_t kTamestAverage = 4000;

// The sample that a block of nothing but its average consists of.
inline uint8_t flat_sample(int32_t average) {
  const int32_t sample = ((average + 4) >> 3) + 128;
  return static_cast<uint8_t>(sample < 0 ? 0 : sample > 255 ? 255 : sample);
}

class BlockShrinker {
 public:
  // `size` is 8, 4 or 2; low: all coefficients lie in the first four rows and columns. Samples
  // arrive at `to` now or at flush().
  void add(const CoefficientBlock& block, bool low, int32_t size, uint8_t* to, ptrdiff_t stride);
  void flush();
  // Drops what was not flushed.
  void forget() {
    for (Strip& strip : strips_) {
      strip.blocks = 0;
      strip.low = true;
    }
  }

 private:
  static constexpr int kLanes = 8;

  // Columns are done: rows of several blocks below each other.
  struct Strip {
    alignas(16) int16_t rows[kLanes][kLanes];
    uint8_t* to[4];
    ptrdiff_t strides[4];
    int blocks = 0;
    bool low = true;  // all of them
  };
  template <int kSize>
  void add_to(const CoefficientBlock& block, bool low, Strip& strip, uint8_t* to, ptrdiff_t stride);
  template <int kSize>
  static void finish(Strip& strip);

  Strip strips_[3] = {};  // of 8x8, 4x4 and 2x2
};

}  // namespace overlord::media
