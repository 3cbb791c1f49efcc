// Antialiased resize by Pillow's definition: a separable filter whose reach grows with the
// reduction, across first, then down, each pass rounded and clipped to 8 bits. Weights are computed
// and applied in whole numbers, so the pixels are the same on every CPU; they are within one level
// of Pillow's (measured in python/tests/media/test_media.py).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/media/image/image.h"

namespace overlord::media {

enum class ResizeFilter : uint8_t { kBilinear, kBicubic, kLanczos };

// One axis of a resize: `length / per` source samples from `start / per` on become `size` new ones,
// of which [first, first + count) are wanted. Samples outside [low, high) are never read.
struct ResizeAxis {
  int64_t start = 0;
  int64_t length = 0;
  int64_t per = 1;
  int32_t low = 0;
  int32_t high = 0;
  int32_t size = 0;
  int32_t first = 0;
  int32_t count = 0;

  // All of `source` samples to `size` new ones.
  static ResizeAxis whole(int32_t source, int32_t size) {
    return {0, source, 1, 0, source, size, 0, size};
  }

  friend bool operator==(const ResizeAxis&, const ResizeAxis&) = default;
};

// The weights of one axis: new sample i is the sum of weights[i * stride + k] * source[starts[i] +
// k] over k < taps[i], in units of 2^-kBits, as fine as 32-bit sums of samples
// allow.
struct ResizeWeights {
  static constexpr int kBits = 22;
  std::vector<int32_t> starts;
  std::vector<int32_t> taps;
  std::vector<int32_t> weights;
  int32_t stride = 0;
};

void make_weights(const ResizeAxis& axis, ResizeFilter filter, ResizeWeights* out);

// Memory that resizing keeps between pictures, and the weights it made last. One per thread.
struct ResizeScratch {
  struct Slot {
    ResizeAxis axis;
    ResizeFilter filter = ResizeFilter::kBilinear;
    bool made = false;
    ResizeWeights weights;
  };
  const ResizeWeights& weights(const ResizeAxis& axis, ResizeFilter filter);

  std::vector<uint8_t> rows;     // between the passes
  std::vector<uint8_t> columns;  // sixteen rows side by side
  std::vector<Slot> slots;
  size_t next_slot = 0;
};

// `to` holds across.count x down.count pixels of source.channels (1, 3 or 4), rows to_stride apart.
void resize(const ImageView& source, const ResizeAxis& across, const ResizeAxis& down,
            ResizeFilter filter, ResizeScratch& scratch, uint8_t* to, ptrdiff_t to_stride);

}  // namespace overlord::media
