#include "overlord/media/image/chain_rows.h"

#include <optional>
#include <type_traits>

namespace overlord::media {
namespace {

// Follows the steps as far as the size does not depend on the picture.
struct SizeFollower {
  std::optional<ImageSize> size;
  bool grey = false;
  bool planes = false;
  bool floats = false;
  const Patchify* patchify = nullptr;

  void operator()(const OrientStep&) {}
  void operator()(const ResizeStep& step) { size = step.size; }
  void operator()(const ResizeShortStep&) { size.reset(); }
  void operator()(const SmartResizeStep&) { size.reset(); }
  void operator()(const AspectBucketStep& step) {
    size.reset();
    if (step.buckets.size() == 1) size = step.buckets.front();
  }
  void operator()(const CentreCropStep& step) { size = step.size; }
  void operator()(const RandomCropStep& step) { size = step.size; }
  void operator()(const RandomResizedCropStep& step) { size = step.size; }
  void operator()(const RandomFlipStep&) {}
  void operator()(const TileStep& step) { size = ImageSize{step.size, step.size}; }
  void operator()(const GreyStep&) { grey = true; }
  void operator()(const PlanesStep&) { planes = true; }
  void operator()(const NormaliseStep&) { floats = true; }
  void operator()(const PatchifyStep& step) { patchify = &step.rule; }
};

}  // namespace

Result<ChainRows> chain_rows(const ImageChain& chain) {
  SizeFollower end;
  for (const ImageStep& step : chain.steps) std::visit(end, step);
  const uint32_t channels = end.grey ? 1 : 3;
  ChainRows rows;
  rows.floats = end.floats;
  if (end.patchify != nullptr) {
    rows.patches = true;
    rows.shape = {static_cast<uint32_t>(end.patchify->row_values(static_cast<int32_t>(channels)))};
    return rows;
  }
  if (!end.size) {
    return invalid_argument(
        "image chain: pictures leave it in different sizes and would not fit one array; end it "
        "with patchify, or bring them to one size with resize, centre_crop, random_crop, "
        "random_resized_crop, tile or an aspect_bucket of one size");
  }
  const auto height = static_cast<uint32_t>(end.size->height);
  const auto width = static_cast<uint32_t>(end.size->width);
  rows.shape = end.planes ? std::vector<uint32_t>{channels, height, width}
                          : std::vector<uint32_t>{height, width, channels};
  return rows;
}

}  // namespace overlord::media
