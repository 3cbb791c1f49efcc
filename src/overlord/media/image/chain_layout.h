// What a chain does to one picture of known size, with all sizes and boxes worked out: the plan
// that planned_size reads and run() carries out.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/media/image/image_chain.h"

namespace overlord::media {

// One pass over pixels: a box of the input is resized to `resized`, of which `kept` is kept.
struct PixelStage {
  ImageBox box;
  ImageSize resized;
  ImageBox kept;
  ResizeFilter filter = ResizeFilter::kBicubic;
  bool flip = false;

  bool resizes() const { return box.width != resized.width || box.height != resized.height; }
};

struct ChainLayout {
  bool upright = false;
  std::vector<PixelStage>
      stages;  // never empty; the first reads the decoded picture, turned upright
  std::optional<PixelStage> thumbnail;  // reads what the last stage reads
  bool grey = false;
  const Normalise* normalise = nullptr;
  const Patchify* patchify = nullptr;
  ImageGeometry geometry;
};

// `key` moves boxes and flips, never sizes.
Result<ChainLayout> lay_out_chain(const ImageChain& chain, const ImageHeader& header, uint64_t key);

}  // namespace overlord::media
