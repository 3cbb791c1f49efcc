// How the outcomes of chains of pictures and of clips lie in an array of rows that many of them
// share: a row is a patch, or a picture or frame where all leave the chain in one size.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "overlord/base/status.h"
#include "overlord/media/field_chain.h"
#include "overlord/media/image/image_chain.h"

namespace overlord::media {

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
  void operator()(const PatchifyStep& rule) { patchify = &rule; }

  // What the steps end in; `refusal` where there is no row size in common.
  Result<FieldRows> rows(std::string_view refusal) const;
};

// Refuses a chain whose pictures have no row size in common.
Result<FieldRows> chain_rows(const ImageChain& chain);

// What a blob will be that becomes so many pictures, be they tiles or frames, in so many parts, or
// the patches of so many grids.
template <typename Geometry>
FieldPlan pixel_plan(const Geometry& geometry, int64_t parts, int64_t pictures, int64_t grids) {
  const bool patches = geometry.patches > 0;
  FieldPlan plan;
  plan.parts = parts;
  plan.part_units = geometry.patches / parts;
  plan.units = geometry.patches;
  plan.tokens = geometry.tokens;
  plan.size_bytes = geometry.bytes();
  plan.shape.rows = static_cast<uint32_t>(patches ? geometry.patches : pictures);
  plan.shape.t = static_cast<uint32_t>(patches ? grids : pictures);
  plan.shape.h = static_cast<uint32_t>(patches ? geometry.grid_h : geometry.height);
  plan.shape.w = static_cast<uint32_t>(patches ? geometry.grid_w : geometry.width);
  return plan;
}

}  // namespace overlord::media
