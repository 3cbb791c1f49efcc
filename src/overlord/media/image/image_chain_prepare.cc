// Which steps may follow each other, with which values, and how they are written.
#include <string>
#include <utility>

#include "overlord/media/image/image_chain.h"
#include "overlord/media/image/image_step_text.h"
#include "overlord/media/step_values.h"

namespace overlord::media {
namespace {

constexpr int32_t kMostTiles = 1024;

// Steps come in this order; those of one phase may repeat unless `once`.
enum class Phase { kOrient, kMove, kTile, kColour, kShape };

struct StepRule {
  std::string_view name;
  Phase phase;
  bool once;
};

// In the order of ImageStep's alternatives.
constexpr StepRule kRules[] = {
    {"orient", Phase::kOrient, true},       {"resize", Phase::kMove, false},
    {"resize_short", Phase::kMove, false},  {"smart_resize", Phase::kMove, false},
    {"aspect_bucket", Phase::kMove, false}, {"centre_crop", Phase::kMove, false},
    {"random_crop", Phase::kMove, false},   {"random_resized_crop", Phase::kMove, false},
    {"random_flip", Phase::kMove, false},   {"tile", Phase::kTile, true},
    {"grey", Phase::kColour, true},         {"planes", Phase::kShape, true},
    {"normalise", Phase::kShape, true},     {"patchify", Phase::kShape, true},
};
static_assert(std::size(kRules) == std::variant_size_v<ImageStep>);

Status check_side(ImageSize size) {
  const Status status = within("width", size.width, 1, kLargestSide);
  return status.ok() ? within("height", size.height, 1, kLargestSide) : status;
}

template <typename Step>
Status check(const Step&) {
  return {};
}
Status check(const ResizeStep& step) { return check_side(step.size); }
Status check(const ResizeShortStep& step) { return within("side", step.side, 1, kLargestSide); }
Status check(const CentreCropStep& step) { return check_side(step.size); }
Status check(const RandomCropStep& step) { return check_side(step.size); }
Status check(const SmartResizeStep& step) {
  OVERLORD_RETURN_IF_ERROR(within("factor", step.rule.factor, 1, 4096));
  OVERLORD_RETURN_IF_ERROR(within("min_pixels", step.rule.min_pixels, 1, int64_t{1} << 32));
  return within("max_pixels", step.rule.max_pixels, step.rule.min_pixels, int64_t{1} << 32);
}
Status check(const AspectBucketStep& step) {
  if (step.buckets.empty()) return invalid_argument("buckets must name one size or more");
  for (const ImageSize bucket : step.buckets) {
    OVERLORD_RETURN_IF_ERROR(check_side(bucket));
  }
  return {};
}
Status check(const RandomResizedCropStep& step) {
  Status status = check_side(step.size);
  if (status.ok()) status = within("area_max", step.area.area_max, 1, 1000);
  if (status.ok()) status = within("area_min", step.area.area_min, 1, step.area.area_max);
  if (status.ok()) status = within("aspect_max", step.area.aspect_max, 10, 100000);
  if (status.ok()) status = within("aspect_min", step.area.aspect_min, 10, step.area.aspect_max);
  return status;
}
Status check(const RandomFlipStep& step) { return within("chance", step.chance, 0, 1000); }
Status check(const TileStep& step) {
  OVERLORD_RETURN_IF_ERROR(within("size", step.size, 1, 4096));
  return within("most", step.most, 1, std::min(kMostTiles, kLargestSide / step.size));
}
Status check(const NormaliseStep& rule) { return check_values(rule); }
Status check(const PatchifyStep& rule) { return check_values(rule); }

Status check_order(const ImageChain& chain) {
  Phase phase = Phase::kOrient;
  std::vector<size_t> seen(std::size(kRules), 0);
  bool planes = false;
  bool patches = false;
  for (const ImageStep& step : chain.steps) {
    const StepRule& rule = kRules[step.index()];
    if (patches) return invalid_argument("image chain: nothing may follow patchify");
    if (rule.phase < phase) {
      return invalid_argument(
          "image chain: " + std::string(rule.name) +
          " comes too late; the order is orient, then resizes, crops and flips, "
          "tile, grey, then planes, normalise and patchify");
    }
    phase = rule.phase;
    if (rule.once && seen[step.index()]++ > 0) {
      return invalid_argument("image chain: " + std::string(rule.name) + " appears twice");
    }
    planes = planes || std::holds_alternative<PlanesStep>(step);
    patches = std::holds_alternative<PatchifyStep>(step);
  }
  if (planes && patches) {
    return invalid_argument("image chain: planes and patchify exclude each other");
  }
  return {};
}

}  // namespace

std::string_view step_name(const ImageStep& step) { return kRules[step.index()].name; }

std::string chain_text(const ImageChain& chain) { return print_chain<ImagePrinter>(chain); }

Result<ImageChain> parse_chain(std::string_view text) {
  return parse_steps<ImageChain, ImageParser>("image chain", text);
}

Result<PreparedImageChain> PreparedImageChain::prepare(ImageChain chain) {
  OVERLORD_RETURN_IF_ERROR(check_order(chain));
  PreparedImageChain out;
  for (const ImageStep& step : chain.steps) {
    const Status status = std::visit([](const auto& one) { return check(one); }, step);
    if (!status.ok()) return status.with_context("image chain: " + std::string(step_name(step)));
  }
  out.chain_ = std::move(chain);
  if (const auto* const rule = out.find<NormaliseStep>()) out.table_ = normalise_table(*rule);
  return out;
}

}  // namespace overlord::media
