// Which steps may follow each other, with which values, and what comes out of them.
#include <algorithm>
#include <string>
#include <utility>

#include "overlord/media/step_values.h"
#include "overlord/media/video/video_chain.h"

namespace overlord::media {
namespace {

constexpr int32_t kLargestClipSide = 16384;
constexpr int64_t kMostValues = int64_t{1} << 30;

struct StepRule {
  std::string_view name;
  int phase;  // steps come in this order, one of each but the last phase
};
constexpr int kShape = 5;
// In the order of VideoStep's alternatives.
constexpr StepRule kRules[] = {
    {"orient", 0},         {"clip", 1},          {"sample", 2},      {"resize", 3},
    {"resize_short", 3},   {"smart_resize", 3},  {"centre_crop", 4}, {"planes", kShape},
    {"normalise", kShape}, {"patchify", kShape},
};
static_assert(std::size(kRules) == std::variant_size_v<VideoStep>);

Status check_side(ImageSize size) {
  OVERLORD_RETURN_IF_ERROR(within("width", size.width, 1, kLargestClipSide));
  return within("height", size.height, 1, kLargestClipSide);
}

template <typename Step>
Status check(const Step&) {
  return {};
}
Status check(const ClipStep& step) {
  OVERLORD_RETURN_IF_ERROR(within("start", step.start, 0, int64_t{1} << 40));
  if (step.end == 0) return {};
  return within("end", step.end, step.start + 1, int64_t{1} << 40);
}
Status check(const SampleStep& choice) {
  constexpr int64_t kMost = 1 << 16;
  OVERLORD_RETURN_IF_ERROR(within("multiple_of", choice.multiple_of, 1, 64));
  if ((choice.frames == 0) == (choice.fps.num == 0)) {
    return invalid_argument("name either frames or fps");
  }
  OVERLORD_RETURN_IF_ERROR(within("frames", choice.frames, 0, kMost));
  if (choice.frames % choice.multiple_of != 0) {
    return invalid_argument(
        "frames must be a multiple of multiple_of=" + std::to_string(choice.multiple_of) +
        "; got " + std::to_string(choice.frames));
  }
  OVERLORD_RETURN_IF_ERROR(within("fps", choice.fps.num, 0, 1'000'000));
  OVERLORD_RETURN_IF_ERROR(within("fps (below the line)", choice.fps.den, 1, 1'000'000));
  OVERLORD_RETURN_IF_ERROR(within("max", choice.max, choice.multiple_of, kMost));
  return within("min", choice.min, 1, choice.max);
}
Status check(const ResizeStep& step) { return check_side(step.size); }
Status check(const ResizeShortStep& step) { return within("side", step.side, 1, kLargestClipSide); }
Status check(const CentreCropStep& step) { return check_side(step.size); }
Status check(const ClipResizeStep& step) {
  constexpr int64_t kMost = int64_t{1} << 32;
  OVERLORD_RETURN_IF_ERROR(within("factor", step.factor, 1, 4096));
  OVERLORD_RETURN_IF_ERROR(within("min_pixels", step.min_pixels, 1, kMost));
  OVERLORD_RETURN_IF_ERROR(within("max_pixels", step.max_pixels, step.min_pixels, kMost));
  return within("total_pixels", step.total_pixels, 1, int64_t{1} << 50);
}
Status check(const NormaliseStep& rule) { return check_values(rule); }
Status check(const PatchifyStep& rule) { return check_values(rule); }

Status check_decode(const VideoDecodeOptions& decode) {
  const VideoLimits& limits = decode.limits;
  OVERLORD_RETURN_IF_ERROR(within("threads", decode.threads, 1, 64));
  OVERLORD_RETURN_IF_ERROR(within("max_bytes", limits.bytes, 1, int64_t{1} << 40));
  OVERLORD_RETURN_IF_ERROR(within("max_pixels", limits.pixels, 1, int64_t{1} << 28));
  OVERLORD_RETURN_IF_ERROR(within("max_frames", limits.frames, 1, int64_t{1} << 24));
  OVERLORD_RETURN_IF_ERROR(within("max_seconds", limits.seconds, 1, int64_t{1} << 31));
  OVERLORD_RETURN_IF_ERROR(within("max_streams", limits.streams, 1, 1024));
  return within("max_work", limits.work, 1, int64_t{1} << 52);
}

Status check_order(const VideoChain& chain) {
  int phase = -1;
  std::vector<int> seen(std::size(kRules), 0);
  for (const VideoStep& step : chain.steps) {
    const StepRule& rule = kRules[step.index()];
    if (rule.phase < phase || (rule.phase == phase && phase != kShape)) {
      return invalid_argument(
          "video chain: " + std::string(rule.name) +
          " comes too late; the order is orient, clip, sample, one of resize, resize_short and "
          "smart_resize, centre_crop, then planes, normalise and patchify");
    }
    if (seen[step.index()]++ > 0) {
      return invalid_argument("video chain: " + std::string(rule.name) + " appears twice");
    }
    if (phase == kShape && seen[std::size(kRules) - 1] > 0 && rule.name != "patchify") {
      return invalid_argument("video chain: nothing may follow patchify");
    }
    phase = rule.phase;
  }
  if (seen[1] > 0 && seen[2] == 0) {
    return invalid_argument(
        "video chain: clip needs sample behind it; how many frames lie in a part is not in the "
        "header");
  }
  if (seen[7] > 0 && seen[9] > 0) {
    return invalid_argument("video chain: planes and patchify exclude each other");
  }
  return {};
}

int32_t orientation_by(int32_t rotation) {
  return rotation == 90 ? 6 : (rotation == 180 ? 3 : (rotation == 270 ? 8 : 1));
}

}  // namespace

std::string_view step_name(const VideoStep& step) { return kRules[step.index()].name; }

SmartResize ClipResizeStep::rule(int64_t frames) const {
  constexpr int64_t kFramesOfAPatch = 2;
  const int64_t share = total_pixels / frames * kFramesOfAPatch;
  return {factor, min_pixels, std::max(std::min(max_pixels, share), min_pixels * 105 / 100)};
}

Result<PreparedVideoChain> PreparedVideoChain::prepare(VideoChain chain) {
  OVERLORD_RETURN_IF_ERROR(check_order(chain));
  const Status decode = check_decode(chain.decode);
  if (!decode.ok()) return decode.with_context("video chain: decode");
  PreparedVideoChain out;
  for (const VideoStep& step : chain.steps) {
    const Status status = std::visit([](const auto& one) { return check(one); }, step);
    if (!status.ok()) return status.with_context("video chain: " + std::string(step_name(step)));
  }
  out.chain_ = std::move(chain);
  if (const auto* const rule = out.find<NormaliseStep>()) out.table_ = normalise_table(*rule);
  return out;
}

VideoSpan PreparedVideoChain::span(const VideoHeader& header, VideoSpan part) const {
  if (part == VideoSpan()) {
    const auto* const step = find<ClipStep>();
    return step == nullptr ? VideoSpan() : *step;
  }
  // Rows tell ends that are rounded, or of a longer copy.
  if (part.end >= header.milliseconds()) part.end = 0;
  return part;
}

Result<FrameLayout> PreparedVideoChain::lay_out(const VideoHeader& header, VideoSpan part) const {
  if (part != VideoSpan() && find<SampleStep>() == nullptr) {
    return bad_data("a part of a clip needs `sample`: how many frames lie in it nobody knows");
  }
  FrameLayout layout;
  VideoGeometry& geometry = layout.geometry;
  OVERLORD_TRY(geometry.frames, chosen_count(header, span(header, part), find<SampleStep>()));
  if (find<OrientStep>() != nullptr) layout.orientation = orientation_by(header.rotation);
  ImageSize size{header.width, header.height};
  if (orientation_of(layout.orientation).swaps) std::swap(size.width, size.height);
  layout.resized = size;
  if (const auto* const step = find<ResizeStep>()) {
    layout.resized = step->size;
    layout.filter = step->filter;
  } else if (const auto* const shorter = find<ResizeShortStep>()) {
    layout.resized = short_side_size(size, shorter->side);
    layout.filter = shorter->filter;
  } else if (const auto* const smart = find<ClipResizeStep>()) {
    OVERLORD_TRY(layout.resized, smart_resize(size, smart->rule(geometry.frames)));
    layout.filter = smart->filter;
  }
  if (std::max(layout.resized.width, layout.resized.height) > kLargestClipSide * 4) {
    return bad_data("clip refused before decoding: frames would have " + size_text(layout.resized) +
                    " pixels");
  }
  layout.kept = {0, 0, layout.resized.width, layout.resized.height};
  if (const auto* const crop = find<CentreCropStep>()) {
    if (crop->size.width > layout.resized.width || crop->size.height > layout.resized.height) {
      return bad_data("clip of " + size_text(layout.resized) + " is too small for a crop of " +
                      size_text(crop->size));
    }
    layout.kept = centre_box(layout.resized, crop->size);
  }
  geometry.width = layout.kept.width;
  geometry.height = layout.kept.height;
  geometry.floats = find<NormaliseStep>() != nullptr;
  geometry.planes = find<PlanesStep>() != nullptr;
  if (geometry.frames > kMostValues / (int64_t{geometry.width} * geometry.height * 3)) {
    return bad_data("clip refused before decoding: " + std::to_string(geometry.frames) +
                    " frames of " + size_text({geometry.width, geometry.height}) +
                    " would be more than " + std::to_string(kMostValues) +
                    " values; sample fewer frames or resize them");
  }
  if (const auto* const rule = find<PatchifyStep>()) {
    const Status whole = check_patches({geometry.width, geometry.height}, *rule);
    if (!whole.ok()) return bad_data(whole.message());
    geometry.grid_t = (geometry.frames + rule->temporal - 1) / rule->temporal;
    geometry.grid_h = geometry.height / rule->patch;
    geometry.grid_w = geometry.width / rule->patch;
    geometry.patches = geometry.grid_t * geometry.grid_h * geometry.grid_w;
    geometry.tokens = geometry.patches / (rule->merge * rule->merge);
    geometry.row_values = rule->row_values(3);
  }
  return layout;
}

Result<VideoGeometry> PreparedVideoChain::planned_size(const VideoHeader& header,
                                                       VideoSpan part) const {
  OVERLORD_TRY(const FrameLayout layout, lay_out(header, part));
  return layout.geometry;
}

}  // namespace overlord::media
