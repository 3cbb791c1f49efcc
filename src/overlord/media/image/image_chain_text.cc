// The fields of an image chain's steps, for its text form.
#include <string>

#include "overlord/media/image/image_chain.h"
#include "overlord/media/image/image_step_text.h"

namespace overlord::media {
namespace {

template <typename Visitor, typename Step>
void describe(Visitor& v, Step& step) {
  using Plain = std::remove_const_t<Step>;
  if constexpr (std::is_same_v<Plain, DecodeOptions>) {
    v.field("jpeg", step.jpeg);
    v.field("alpha", step.alpha);
    v.field("background", step.background);
    v.field("max_bytes", step.limits.bytes);
    v.field("max_pixels", step.limits.pixels);
    v.field("max_scans", step.limits.scans);
    v.field("max_ratio", step.limits.ratio);
    v.field("ratio_floor", step.limits.ratio_floor);
  } else if constexpr (std::is_same_v<Plain, ResizeShortStep>) {
    v.field("side", step.side);
  } else if constexpr (std::is_same_v<Plain, SmartResizeStep>) {
    v.field("factor", step.rule.factor);
    v.field("min_pixels", step.rule.min_pixels);
    v.field("max_pixels", step.rule.max_pixels);
  } else if constexpr (std::is_same_v<Plain, AspectBucketStep>) {
    v.field("buckets", step.buckets);
  } else if constexpr (std::is_same_v<Plain, RandomFlipStep>) {
    v.field("chance", step.chance);
  } else if constexpr (std::is_same_v<Plain, TileStep>) {
    v.field("size", step.size);
    v.field("most", step.most);
    v.field("thumbnail", step.thumbnail);
  } else if constexpr (std::is_same_v<Plain, NormaliseStep>) {
    describe_normalise(v, step.rule);
  } else if constexpr (std::is_same_v<Plain, PatchifyStep>) {
    describe_patchify(v, step.rule);
  } else if constexpr (requires { step.size.width; }) {
    describe_size(v, step.size);
    if constexpr (std::is_same_v<Plain, RandomResizedCropStep>) {
      v.field("area_min", step.area.area_min);
      v.field("area_max", step.area.area_max);
      v.field("aspect_min", step.area.aspect_min);
      v.field("aspect_max", step.area.aspect_max);
    }
  }
  if constexpr (requires { step.filter; }) describe_filter(v, step.filter);
}

constexpr auto kDescribe = [](auto& visitor, auto& step) { describe(visitor, step); };

}  // namespace

std::string chain_text(const ImageChain& chain) {
  return print_steps<ImagePrinter>(chain.decode, chain.steps, kDescribe);
}

Result<ImageChain> parse_chain(std::string_view text) {
  ImageChain chain;
  OVERLORD_RETURN_IF_ERROR(
      parse_steps<ImageParser>("image chain", text, &chain.decode, &chain.steps, kDescribe));
  return chain;
}

}  // namespace overlord::media
