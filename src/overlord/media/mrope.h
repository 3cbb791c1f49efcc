// Three-plane positions of Qwen2-VL ("MRoPE"): text counts on in all planes at once, a picture or
// clip spreads over time, height and width from where the text stood, and text goes on behind the
// largest position it used.
#pragma once

#include <cstdint>
#include <span>

#include "overlord/base/status.h"

namespace overlord::media {

// Tokens [start, start + t * h * w) are a medium's, in the order t, h, w. Sizes count tokens: grid
// sizes divided by the merge.
struct MropeSpan {
  int64_t start = 0;
  int32_t t = 1;
  int32_t h = 1;
  int32_t w = 1;
  int32_t t_step = 1;  // positions from frame to frame; 1 in Qwen2-VL
};

// Fills the planes, each as long as the sequence; `spans` are in order and do not touch each
// other's tokens. Returns the position that would come next.
Result<int64_t> mrope_positions(std::span<const MropeSpan> spans, std::span<int32_t> time,
                                std::span<int32_t> height, std::span<int32_t> width);

}  // namespace overlord::media
